"""Tensor maps: every field as the driver encodes it, and back."""

import json
from pathlib import Path

import pytest

from checkers.simulator.copies.tensormap import MAP_BYTES, decode, encode, replaced

RECORD = json.loads((Path(__file__).parent.parent / "data" / "tensormaps_h200.json").read_text())
BASE = RECORD["base"]
MAPS = {name: bytes.fromhex(text) for name, text in RECORD["maps"].items() if text}


def test_what_the_base_map_was_made_with_is_decoded():
    m = decode(MAPS["base"])
    assert m.address == BASE
    assert (m.sizes, m.strides, m.box, m.steps) == ((256, 512), (512,), (64, 128), (1, 1))
    assert (m.element.name, m.swizzle, m.interleave, m.fill_nan) == ("bf16", "none", "none", False)
    assert m.box_bytes == 64 * 128 * 2
    assert m.last_byte == BASE + 512 * 511 + 511


@pytest.mark.parametrize("name", MAPS)
def test_each_recorded_map_encodes_to_the_same_bytes(name):
    assert encode(decode(MAPS[name])) == MAPS[name]


@pytest.mark.parametrize("name", [name for name in MAPS if name != "rank5 es"])
def test_the_bytes_of_a_box_are_those_the_driver_wrote(name):
    assert decode(MAPS[name]).box_bytes == int.from_bytes(MAPS[name][64:68], "little")


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("addr+16", "address", BASE + 16),
        ("dims 257,512", "sizes", (257, 512)),
        ("dims 256,513", "sizes", (256, 513)),
        ("dims 2^31", "sizes", (256, 1 << 31)),
        ("dims 2^32", "sizes", (256, 1 << 32)),
        ("stride 528", "strides", (528,)),
        ("stride 2^36", "strides", (1 << 36,)),
        ("stride 2^39", "strides", (1 << 39,)),
        ("box 8,128", "box", (8, 128)),
        ("box 256,256", "box", (256, 256)),
        ("es 1,2", "steps", (1, 2)),
        ("es 1,8", "steps", (1, 8)),
        ("swizzle CU_TENSOR_MAP_SWIZZLE_128B 3", "swizzle", "128B"),
        ("swizzle CU_TENSOR_MAP_SWIZZLE_32B 1", "swizzle", "32B"),
        ("interleave CU_TENSOR_MAP_INTERLEAVE_32B 2", "interleave", "32B"),
        ("oob CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA 1", "fill_nan", True),
        ("l2 CU_TENSOR_MAP_L2_PROMOTION_L2_256B 3", "promotion", 256),
        ("rank5", "rank", 5),
    ],
)
def test_the_argument_that_was_changed_is_the_field_that_changes(name, field, value):
    assert getattr(decode(MAPS[name]), field) == value


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("UINT8 0", "u8"),
        ("UINT16 1", "u16"),
        ("UINT32 2", "u32"),
        ("INT32 3", "s32"),
        ("UINT64 4", "u64"),
        ("INT64 5", "s64"),
        ("FLOAT16 6", "f16"),
        ("FLOAT32 7", "f32"),
        ("FLOAT64 8", "f64"),
        ("BFLOAT16 9", "bf16"),
        ("FLOAT32_FTZ 10", "f32.ftz"),
        ("TFLOAT32 11", "tf32"),
        ("TFLOAT32_FTZ 12", "tf32.ftz"),
    ],
)
def test_element_types(name, element):
    assert decode(MAPS[f"dtype CU_TENSOR_MAP_DATA_TYPE_{name}"]).element.name == element


def test_bits_that_only_the_dsl_sets_change_nothing():
    data = bytearray(MAPS["base"])
    data[8] |= 1 << 1
    data[10] |= 1 << 5
    data[100] = 0xAB
    assert decode(bytes(data)) == decode(MAPS["base"])


@pytest.mark.parametrize(
    ("field", "value", "ordinal", "attribute", "expected"),
    [
        ("global_address", 0x7F0000001230, 0, "address", 0x7F0000001230),
        ("global_dim", 1000, 1, "sizes", (256, 1000)),
        ("global_stride", 1 << 37, 0, "strides", (1 << 37,)),
        ("box_dim", 32, 0, "box", (32, 128)),
        ("element_stride", 4, 1, "steps", (1, 4)),
        ("elemtype", 6, 0, "element", "f16"),
        ("elemtype", 11, 0, "element", "tf32"),
        ("swizzle_mode", 3, 0, "swizzle", "128B"),
        ("fill_mode", 1, 0, "fill_nan", True),
        ("interleave_layout", 2, 0, "interleave", "32B"),
        ("rank", 0, 0, "rank", 1),
    ],
)
def test_replacing_a_field(field, value, ordinal, attribute, expected):
    changed = getattr(decode(replaced(MAPS["base"], field, value, ordinal)), attribute)
    assert getattr(changed, "name", changed) == expected


def test_replacing_swizzle_and_address_gives_what_the_driver_encodes():
    plain = MAPS["swizzle CU_TENSOR_MAP_SWIZZLE_NONE 0"]
    changed = replaced(plain, "swizzle_mode", 3)
    wanted = MAPS["swizzle CU_TENSOR_MAP_SWIZZLE_128B 3"]
    # The driver also writes the swizzle into bytes 72 and 73, the instruction does not.
    assert changed == wanted[:72] + plain[72:74] + wanted[74:]
    assert replaced(MAPS["base"], "global_address", BASE + 16) == MAPS["addr+16"]


@pytest.mark.parametrize(("field", "value"), [("swizzle_mode", 4), ("box_dim", 0), ("rank", 5)])
def test_a_value_that_a_field_cannot_have_is_named(field, value):
    with pytest.raises(ValueError, match=field):
        replaced(MAPS["base"], field, value)


def test_bytes_that_are_no_map_are_refused():
    with pytest.raises(ValueError, match="no tensor map"):
        decode(b"\xff" * MAP_BYTES)


def test_a_map_that_the_driver_would_refuse_says_why():
    wide = replaced(replaced(MAPS["base"], "swizzle_mode", 1), "global_stride", 520)
    assert decode(MAPS["base"]).faults() == []
    faults = decode(wide).faults()
    assert any("wider than the 32 of its 32B swizzle" in fault for fault in faults)
    odd = bytearray(MAPS["base"])
    odd[0] |= 8
    assert any("multiple of 16" in fault for fault in decode(bytes(odd)).faults())

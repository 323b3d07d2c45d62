"""Addresses in words: which tensor, which index; which shared variable, which element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkers.simulator.ptx.program import TYPE_BITS

if TYPE_CHECKING:
    from checkers.simulator.launch.records import Tensor
    from checkers.simulator.machine.kernel import Kernel


def index_of(tensor: Tensor, address: int) -> tuple[int, ...] | None:
    """The index of the element that ``address`` lies in; None when in a gap between its strides.

    Of several (strides of 0, overlapping views) the smallest in the outermost dimensions.
    """
    offset = (address - tensor.address) // tensor.itemsize
    order = sorted(
        (d for d in range(len(tensor.shape))), key=lambda d: tensor.strides[d], reverse=True
    )
    index = [0] * len(tensor.shape)
    for d in order:
        stride = tensor.strides[d]
        if stride <= 0 or tensor.shape[d] <= 1:
            continue
        index[d] = min(offset // stride, tensor.shape[d] - 1)
        offset -= index[d] * stride
    return tuple(index) if offset == 0 else None


def element(tensor: Tensor, address: int) -> str:
    """ "x[3, 17]"; "x" for a scalar; "a gap of x" between its rows."""
    if not tensor.shape:
        return tensor.name
    index = index_of(tensor, address)
    if index is None:
        return f"a gap of {tensor.name}"
    return f"{tensor.name}[{', '.join(str(i) for i in index)}]"


def shape_of(tensor: Tensor) -> str:
    """ "shape (8, 1024)", with strides where it is not contiguous."""
    text = f"shape {tuple(tensor.shape)}"
    expected, strides = 1, []
    for size in reversed(tensor.shape):
        strides.append(expected)
        expected *= size
    if tuple(reversed(strides)) != tuple(tensor.strides) and len(tensor.shape) > 1:
        text += f", strides {tuple(tensor.strides)}"
    return text


def whereabouts(tensors: list[Tensor], address: int, width: int) -> tuple[str, dict[str, Any]]:
    """Words for an access of ``width`` bytes that lies in no tensor, by the nearest one.

    Returns the sentence's end, such as "begins right at the end of x (shape (8, 1024))", and
    details: tensor, index, shape, bytes_past.
    """
    some = [t for t in tensors if t.nbytes]
    if not some:
        return "is in no tensor: the launch has none", {}

    def distance(t: Tensor) -> int:
        return max(t.address - (address + width), address - t.end, 0)

    near = min(some, key=distance)
    details: dict[str, Any] = {"tensor": near.name, "shape": tuple(near.shape)}
    described = f"{near.name} ({shape_of(near)})"
    if distance(near) > 1 << 30:
        return "is in no tensor of the launch", {}
    if address >= near.end:
        past = address - near.end
        details["bytes_past"] = past
        index = beyond(near, address)
        if index is not None:
            details["index"] = index
        return f"begins {how_far(past)} the end of {described}", details
    if address + width > near.end:
        over = address + width - near.end
        details |= {"bytes_past": over, "index": index_of(near, address)}
        return f"reaches {over} bytes past the end of {described}", details
    if address < near.address:
        before = near.address - address
        details["bytes_before"] = before
        return f"begins {before} bytes before the start of {described}", details
    details["index"] = index_of(near, address)
    return f"lies in a gap between the elements of {described}", details


def beyond(tensor: Tensor, address: int) -> tuple[int, ...] | None:
    """The index that the address would have if the outermost dimension were longer."""
    if not tensor.shape or max(tensor.strides, default=0) <= 0:
        return None
    offset = (address - tensor.address) // tensor.itemsize
    order = sorted(
        (d for d in range(len(tensor.shape)) if tensor.strides[d] > 0),
        key=lambda d: (tensor.strides[d], tensor.shape[d]),
        reverse=True,
    )
    index = [0] * len(tensor.shape)
    for d in order:
        index[d] = offset // tensor.strides[d]
        offset -= index[d] * tensor.strides[d]
    return tuple(index) if offset == 0 else None


def tensor_at(tensors: list[Tensor], address: int) -> Tensor | None:
    """The tensor that the byte at ``address`` belongs to; the smallest, of several."""
    found = [t for t in tensors if t.address <= address < t.end]
    return min(found, key=lambda t: t.nbytes) if found else None


def shared_place(kernel: Kernel, offset: int) -> str:
    """A byte of shared memory in words: "s[12]", "byte 96 of shared memory"."""
    for name, variable in getattr(kernel, "shared_variables", {}).items():
        start = kernel.shared_offsets.get(name)
        if start is None or variable.extern or not variable.bytes:
            continue
        if start <= offset < start + variable.bytes:
            size = max(TYPE_BITS.get(variable.type, 8) // 8, 1)
            if size == 1 and variable.bytes > 1:
                return f"byte {offset - start} of {name}"
            return f"{name}[{(offset - start) // size}]" if variable.bytes > size else name
    start = getattr(kernel, "dynamic_shared_start", 0)
    if offset >= start:
        return f"byte {offset - start} of shared memory"
    return f"byte {offset} of shared memory, which is reserved"


def how_far(past: int) -> str:
    """ "right at", or "16 bytes past"."""
    return f"{past} bytes past" if past else "right at"

"""PTX text to data: lexer, parser, and a module as the machine reads it."""

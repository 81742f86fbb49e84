"""Damage to files, the same for the same seed: bytes, values of JSON and TOML, and what stands at a path."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

DEEP = "[" * 100_000 + "]" * 100_000
HUGE = 10**400
HUGE_SHARE = 0.005
"""Of damages that insert 30 MB."""

VALUES: tuple[object, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, 10**12, -(10**12), HUGE, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", " ", "x" * 5_000, "../../../etc/passwd", "/dev/zero", "\x1b]0;title\x07\x1b[31m", "a\x00b"),
    *("ü\u202e\U0001f600", "\ud800", "nan"),
    *([], {}, [[]], [None], {"": {}}, ["x"] * 3_000, {"a": {"b": {"c": [1, 2, {"d": None}]}}}),
)
_BYTES = (b"\x00", b"\xff\xfe", b"\x1b[2J", b"\r", b"\n\n", b'"', b"{", b"}", b"\t", b",", b"-", b"1e999", b"9" * 400)

_TOML_VALUES = (
    *("-1", "0", "1e400", "nan", "inf", "true", '""', '"x"', "[]", "{}", "9" * 400, "1979-05-27"),
    *('"\\u0000"', "[" * 5000, '"../../x"', '"\\u001b[31m"'),
)


_WORDS = ("-", "--", "-h", "--json", "last", "simple", "tiny", ".", "..", "x=y", "'", "--set", "=", "%s", "\udcff")


def flip_bit(path: Path, at: int = 0) -> None:
    """Another bit in one byte of a file, by default in the first."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def damage_bytes(draw: random.Random, data: bytes) -> bytes:
    """One to four changes of bytes: flipped bits, cuts, repeats, swaps and strange insertions; rarely, a huge one."""
    if draw.random() < HUGE_SHARE:
        start = draw.randrange(len(data) + 1)
        filler = draw.choice((b"a", b"a ", b",", b"\t", b"\n", b"[", b'{"a":', b"\x00"))
        return data[:start] + filler * (30_000_000 // len(filler)) + data[start:]
    for _ in range(draw.choice((1, 1, 2, 4))):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice((1, 2, 8, 64, 1024)))
        match draw.randrange(7):
            case 0 if start < len(data):
                data = data[:start] + bytes([data[start] ^ (1 << draw.randrange(8))]) + data[start + 1 :]
            case 1:
                data = data[:start]
            case 2:
                data = data[:start] + data[end:]
            case 3:
                data = data[:end] + data[start:end] * draw.choice((1, 50)) + data[end:]
            case 4:
                data = data[:start] + draw.choice(_BYTES) + data[start:]
            case 5:
                data = data[:start] + draw.randbytes(end - start) + data[end:]
            case _:
                data = _damage_number(draw, data)
    return data


def _damage_number(draw: random.Random, data: bytes) -> bytes:
    """Another number in place of one that the text holds."""
    numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?", data[:1_000_000]))
    if not numbers:
        return data
    number = draw.choice(numbers)
    other = draw.choice((b"-1", b"0", b"1e400", b"1" * 30, b"0.5", b"nan", b"true", b'"1"', b"null", b"1_0"))
    return data[: number.start()] + other + data[number.end() :]


def damage_json(draw: random.Random, data: bytes) -> bytes:
    """Another value somewhere in a JSON text or in one of its lines, or a key more or less."""
    lines = data.splitlines(keepends=True)
    row = draw.randrange(len(lines)) if _is_json(lines[0]) else None
    value = json.loads(data if row is None else lines[row])
    text = DEEP if draw.random() < 0.02 else json.dumps(_changed(draw, value))
    changed = text.encode("utf-8", "surrogatepass")
    if row is None:
        return changed
    return b"".join([*lines[:row], changed, b"\n", *lines[row + 1 :]])


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _changed(draw: random.Random, value: object) -> object:
    """The value with one change at a random depth."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        match draw.randrange(8):
            case 0:
                return {name: item for name, item in value.items() if name != key}
            case 1:
                return {**value, str(draw.choice(VALUES))[:300]: draw.choice(VALUES)}
            case _:
                return {**value, key: _changed(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.85:
        position = draw.randrange(len(value))
        return [*value[:position], _changed(draw, value[position]), *value[position + 1 :]]
    return draw.choice(VALUES)


def damage_toml(draw: random.Random, data: bytes) -> bytes:
    """Another value for one key of a TOML text, or bytes changed."""
    lines = data.decode().splitlines()
    rows = [row for row, line in enumerate(lines) if " = " in line]
    if not rows or draw.random() < 0.3:
        return damage_bytes(draw, data)
    row = draw.choice(rows)
    key = lines[row].split(" = ")[0]
    lines[row] = f"{key} = {draw.choice(_TOML_VALUES)}"
    return "\n".join(lines).encode()


def damage_safetensors(draw: random.Random, data: bytes) -> bytes:
    """Another value in the header of a safetensors file, another length of it, or bytes changed."""
    length = int.from_bytes(data[:8], "little")
    match draw.randrange(4):
        case 0:
            return damage_bytes(draw, data)
        case 1:
            wrong = draw.choice((0, 1, length - 1, length + 8, len(data), 2**31, 2**40, 2**63, 2**64 - 1))
            return wrong.to_bytes(8, "little") + data[8:]
        case _:
            header = damage_json(draw, data[8 : 8 + length])
            return len(header).to_bytes(8, "little") + header + data[8 + length :]


def damage_words(draw: random.Random, data: bytes) -> bytes:
    """Another word, or another value of NAME=VALUE, in a text of a word a line; one more, or one less."""
    words = data.decode().split("\n")
    place = draw.randrange(len(words))
    value = draw.choice((*(str(value) for value in VALUES if value != HUGE), *_TOML_VALUES, *_WORDS))
    match draw.randrange(6):
        case 0:
            del words[place]
        case 1:
            words.insert(place, value)
        case _:
            name, equals, _ = words[place].partition("=")
            words[place] = f"{name}={value}" if equals else value
    text = "\n".join(word.replace("\n", " ").replace("\x00", "") for word in words).replace("../../../", "")
    return text.encode("utf-8", "surrogatepass" if "\ud800" in text else "surrogateescape")


class Thing(StrEnum):
    """What stands in place of a file."""

    NOTHING = "nothing"
    EMPTY = "an empty file"
    ZEROS = "zeros"
    FOLDER = "a folder"
    PIPE = "a pipe"
    CIRCLE = "a link to itself"
    DEVICE = "a device"
    BROKEN = "a broken link"
    CLOSED = "a file that may not be read"


def put(thing: Thing, path: Path) -> None:
    """Replace what is at a path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    match thing:
        case Thing.FOLDER:
            path.mkdir()
        case Thing.PIPE:
            os.mkfifo(path)
        case Thing.CIRCLE:
            path.symlink_to(path.name)
        case Thing.DEVICE:
            path.symlink_to("/dev/zero")
        case Thing.BROKEN:
            path.symlink_to("/nonexistent/" + "x" * 200)
        case Thing.EMPTY:
            path.touch()
        case Thing.CLOSED:
            path.touch(0)
        case Thing.ZEROS:
            path.write_bytes(b"\x00" * 10_000)


Damage = Callable[[random.Random, bytes], bytes]

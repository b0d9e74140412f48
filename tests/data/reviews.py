"""A few reviews, written down in every form."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import random
import tarfile

PACKERS = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.xz": lzma.compress}


def made_up(of_class=25):
    """Reviews of both splits, negative ones first; more than ten of a class, so that 2 comes before 10."""
    draw = random.Random(0)
    tones = ("dull", "bad", "tedious"), ("fine", "good", "moving")
    frame = ["a", "film", "the", "it's", "plot", "<br />Director's", "cut,", "naïve", "“quoted”", "1984", "(sic)"]

    def review(split, label, number):
        length = draw.choice([3, 20, 79, 80, 81, 200])
        return " ".join([f"{split}{label}{number}", *draw.choices([*frame, *tones[label]], k=length)]), label

    return {
        split: [review(split, label, number) for label in (0, 1) for number in range(of_class)]
        for split in ("train", "test")
    }


def write_lines(folder, reviews, suffix=".jsonl"):
    folder.mkdir(parents=True, exist_ok=True)
    for split, own in reviews.items():
        lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in own)
        (folder / f"{split}{suffix}").write_bytes(PACKERS[suffix](lines.encode()))


def members(reviews):
    """The files of the official folder: their names in it, their content."""
    for split, own in reviews.items():
        for label, kind in enumerate(("neg", "pos")):
            for number, text in enumerate(text for text, of in own if of == label):
                yield f"{split}/{kind}/{number}_{3 + 5 * label}.txt", text.encode()


def write_folder(folder, reviews):
    for name, content in members(reviews):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def write_archive(path, reviews, extra=()):
    """The archive, its files in no order, with others among them. Returns its MD5."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [*members(reviews), ("README", b"about"), ("train/unsup/0_0.txt", b"no class"), *extra]
    random.Random(1).shuffle(files)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files:
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return md5(path)


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()

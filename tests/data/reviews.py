"""Synthetic reviews, and writing them in every file format."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import random
import tarfile

COMPRESSORS = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.xz": lzma.compress}


def make_reviews(per_class=25):
    """Return reviews of both splits, negative ones first; with more than ten per class, names sort 10 before 2."""
    generator = random.Random(0)
    class_words = ("dull", "bad", "tedious"), ("fine", "good", "moving")
    common_words = [
        "a",
        "film",
        "the",
        "it's",
        "plot",
        "<br />Director's",
        "cut,",
        "naïve",
        "“quoted”",
        "1984",
        "(sic)",
    ]

    def review(split, label, number):
        length = generator.choice([3, 20, 79, 80, 81, 200])
        return " ".join(
            [f"{split}{label}{number}", *generator.choices([*common_words, *class_words[label]], k=length)]
        ), label

    return {
        split: [review(split, label, number) for label in (0, 1) for number in range(per_class)]
        for split in ("train", "test")
    }


def write_lines(folder, reviews, suffix=".jsonl"):
    folder.mkdir(parents=True, exist_ok=True)
    for split, split_reviews in reviews.items():
        lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in split_reviews)
        (folder / f"{split}{suffix}").write_bytes(COMPRESSORS[suffix](lines.encode()))


def folder_files(reviews):
    """Yield the names and contents of the files of the official folder."""
    for split, split_reviews in reviews.items():
        for label, class_folder in enumerate(("neg", "pos")):
            texts = (text for text, text_label in split_reviews if text_label == label)
            for number, text in enumerate(texts):
                yield f"{split}/{class_folder}/{number}_{3 + 5 * label}.txt", text.encode()


def write_folder(folder, reviews):
    for name, content in folder_files(reviews):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def write_archive(path, reviews, extra=()):
    """Write the archive in random order, with other files too; return its MD5."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [*folder_files(reviews), ("README", b"about"), ("train/unsup/0_0.txt", b"no class"), *extra]
    random.Random(1).shuffle(files)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files:
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return md5(path)


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()

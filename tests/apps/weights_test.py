#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `troupe weights`, and weights by Hugging Face's names. Usage: weights_test.py TROUPE SOURCE_DIR [unittest arguments].
import json
import struct
import sys
import unittest

from cli_test import Case, last_json, read_safetensors as read, troupe
from models_test import GPT, TEXT

JOB = GPT.replace("steps = 60", "steps = 3")


def write(path, header, data):
    placed, body = {}, b""
    for name, raw in data.items():
        placed[name] = {**header[name], "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(placed).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


class Weights(Case):
    def setUp(self):
        super().setUp()
        self.gpt = self.write("gpt.toml", JOB.replace("PATH", str(self.write("text.txt", TEXT))))
        self.ours, self.theirs = self.folder / "ours.safetensors", self.folder / "theirs.safetensors"

    def train(self, *arguments):
        """-> weights_digest"""
        done = troupe("run", self.gpt, "--json", "--quiet", *arguments)
        self.assertEqual(done.returncode, 0, done)
        return last_json(done)["weights_digest"]

    def from_file(self, path):
        return self.train("--set", f"model.init={path}")

    def converted(self, *arguments, code=0):
        path = self.folder / "converted.safetensors"
        done = troupe("weights", "convert", *arguments, "--to", path, "--json")
        self.assertEqual(done.returncode, code, done)
        return path

    def diff(self, one, other, code):
        done = troupe("weights", "diff", one, other, "--json")
        self.assertEqual(done.returncode, code, done)
        return last_json(done)

    def test_a_job_begins_alike_from_either_names(self):
        self.assertEqual(self.train("--save", self.ours), self.train("--save", self.theirs, "--names", "huggingface"))
        header, data = read(self.theirs)
        self.assertEqual(header["__metadata__"]["format"], "pt")
        self.assertEqual(header["transformer.h.0.attn.c_attn.weight"]["shape"], [16, 48])
        self.assertEqual(read(self.ours)[0]["h.0.attn.c_attn.weight"]["shape"], [48, 16])
        digest = self.from_file(self.ours)
        self.assertEqual(self.from_file(self.theirs), digest)
        # as older files have it: no prefix, masks, the head again
        plain = {name.removeprefix("transformer."): raw for name, raw in data.items()}
        heads = {name.removeprefix("transformer."): entry for name, entry in header.items()}
        plain |= {"h.0.attn.bias": bytes(64), "h.1.attn.masked_bias": bytes(4), "lm_head.weight": plain["wte.weight"]}
        heads |= {"h.0.attn.bias": {"dtype": "U8", "shape": [1, 1, 8, 8]}, "h.1.attn.masked_bias": {"dtype": "F32", "shape": []},
                  "lm_head.weight": heads["wte.weight"]}
        write(self.folder / "old.safetensors", heads, plain)
        self.assertEqual(self.from_file(self.folder / "old.safetensors"), digest)
        # and as large ones are cut
        index, names = {}, list(plain)
        for i in range(3):
            part = f"model-{i}.safetensors"
            write(self.folder / part, heads, {name: plain[name] for name in names[i::3]})
            index |= {name: part for name in names[i::3]}
        path = self.write("model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": index}))
        self.assertEqual(self.from_file(path), digest)
        self.assertIn(f"{len(names)} tensors", troupe("weights", "list", path).stdout)
        evaluated = [last_json(troupe("evaluate", self.gpt, "--weights", file, "--json"))["weights_digest"] for file in (self.ours, path)]
        self.assertEqual(evaluated[0], evaluated[1])

    def test_what_is_converted_there_and_back_is_the_same(self):
        self.train("--save", self.ours)
        path = self.converted(self.ours, "--names", "huggingface")
        self.assertEqual(self.diff(self.ours, path, 0)["equal"], True)
        path.rename(self.theirs)
        self.assertEqual(read(self.converted(self.theirs))[1], read(self.ours)[1])

    def test_numbers_of_half_the_width_lose_what_their_mantissa_cannot_hold(self):
        self.train("--save", self.ours)
        for kind, bits in ("f16", 11), ("bf16", 8):
            path = self.converted(self.ours, "--type", kind)
            self.assertLess(path.stat().st_size, 0.7 * self.ours.stat().st_size)
            found = self.diff(self.ours, path, 1)["tensors"]
            self.assertGreater(len(found), 5)
            for each in found:
                self.assertLess(each["largest_difference"], 2.0 ** -bits)  # no weight is larger than 2
                if kind == "bf16":  # small ones have fewer bits in f16
                    self.assertLess(each["relative_difference"], 2.0 ** -bits)
            self.train("--set", f"model.init={path}")

    def test_diff_names_what_only_one_has_and_what_has_another_shape(self):
        self.train("--save", self.ours)
        header, data = read(self.ours)
        header["more"] = header["ln_f.bias"]
        header["ln_f.bias"] = {"dtype": "F32", "shape": [4, 4]}
        data["more"] = data.pop("ln_f.weight")
        changed = bytearray(data["wpe.weight"])
        changed[3] ^= 0x80  # the first number's sign
        data["wpe.weight"] = bytes(changed)
        write(self.theirs, header, data)
        found = self.diff(self.ours, self.theirs, 1)
        self.assertEqual((found["equal"], found["only_in_file"], found["only_in_other"]), (False, ["ln_f.weight"], ["more"]))
        self.assertEqual([each["name"] for each in found["tensors"]], ["wpe.weight", "ln_f.bias"])
        first = abs(struct.unpack("<f", data["wpe.weight"][:4])[0])
        self.assertAlmostEqual(found["tensors"][0]["largest_difference"], 2 * first)
        self.assertEqual(found["tensors"][1]["other_shape"], [4, 4])
        self.assertIn("only in the second", troupe("weights", "diff", self.ours, self.theirs).stdout)

    def test_list_shows_tensors_and_metadata(self):
        self.train("--save", self.ours)
        found = last_json(troupe("weights", "list", self.ours, "--json"))
        self.assertEqual(found["metadata"]["step"], "3")
        self.assertEqual(found["tensors"][0] | {"shape": None}, {"name": "wte.weight", "type": "F32", "shape": None, "bytes": 4 * 16 * len(set(TEXT))})
        self.assertEqual(found["bytes"], 4 * found["elements"])

    def test_what_cannot_be_is_refused(self):
        self.assertIn("Hugging Face has names for a GPT-2 alone", self.refused("run", self.job, "--save", self.ours, "--names", "huggingface"))
        self.assertFalse(self.ours.exists())
        self.assertIn("--names requires --save", self.refused("run", self.gpt, "--names", "huggingface"))
        self.train("--save", self.ours)
        self.assertIn("--to: ", self.refused("weights", "convert", self.ours, "--to", "/nowhere/file"))
        header, data = read(self.ours)
        write(self.theirs, header, {name: raw for name, raw in data.items() if not name.startswith("wte")})
        self.assertIn("names for a GPT-2 alone", self.refused("weights", "convert", self.theirs, "--to", self.ours, "--names", "huggingface"))
        self.assertIn('lacks the tensor "wte.weight"', self.refused("run", self.gpt, "--set", f"model.init={self.theirs}"))
        for verb in ("list", self.theirs), ("list", self.folder / "none"), ("diff", self.ours, self.folder):
            done = troupe("weights", *verb)
            self.assertEqual(done.returncode == 0, verb == ("list", self.theirs), done)
        self.assertIn("cannot open it", troupe("weights", "list", self.folder / "none").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)

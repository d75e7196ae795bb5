#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `troupe certs` as people run it, its files as the openssl command reads them. Usage: certs_test.py TROUPE [unittest arguments].
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TROUPE = pathlib.Path(sys.argv[1]).resolve()
OPENSSL = shutil.which("openssl")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def certs(self, *arguments, code=0):
        done = subprocess.run([TROUPE, "certs", *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done)
        return done

    def refused(self, *arguments):
        done = self.certs(*arguments, code=2)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def files(self, folder="."):
        return sorted(p.name for p in (self.folder / folder).iterdir())

    def openssl(self, *arguments):
        done = subprocess.run([OPENSSL, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout


class Authority(Case):
    def test_it_makes_a_folder_with_a_certificate_and_a_key_that_only_its_owner_reads(self):
        out = self.certs("init", "new/lab", "--name", "lab").stdout
        self.assertIn('authority "lab", good until ', out)
        self.assertIn("troupe certs issue new/lab --node NAME --host HOST", out)
        self.assertEqual(self.files("new/lab"), ["ca.key", "ca.pem"])
        self.assertEqual((self.folder / "new/lab/ca.key").stat().st_mode & 0o777, 0o600)

    def test_the_umask_does_not_open_its_key(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.certs("init", "lab")
        self.assertEqual((self.folder / "lab/ca.key").stat().st_mode & 0o777, 0o600)

    def test_it_is_never_written_over(self):
        self.certs("init", "lab", "--name", "first")
        before = {name: (self.folder / "lab" / name).read_bytes() for name in self.files("lab")}
        said = self.refused("init", "lab", "--name", "second")
        self.assertIn('lab/ca.pem is the certificate of "first", good until ', said)
        self.assertEqual(before, {name: (self.folder / "lab" / name).read_bytes() for name in self.files("lab")})
        (self.folder / "lab/ca.pem").unlink()
        self.assertIn("lab/ca.key is there;", self.refused("init", "lab"))
        self.assertEqual(self.files("lab"), ["ca.key"])

    def test_a_file_in_the_folders_place_is_named(self):
        (self.folder / "lab").write_text("")
        self.assertIn("lab is no folder and cannot be made one", self.refused("init", "lab"))

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_folder_that_cannot_be_written_is_named(self):
        (self.folder / "lab").mkdir(mode=0o500)
        self.assertIn("lab cannot be written to: Permission denied", self.refused("init", "lab"))

    def test_days_are_checked(self):
        self.assertIn("--days", self.refused("init", "lab", "--days", "0"))
        self.assertEqual(self.files(), [])


class Node(Case):
    def setUp(self):
        super().setUp()
        self.certs("init", "lab", "--name", "lab")

    def test_it_prints_the_lines_of_the_cluster_file(self):
        out = self.certs("issue", "lab", "--node", "a").stdout
        self.assertIn('[security]\nca = "lab/ca.pem"\ncertificate = "lab/a.pem"\nkey = "lab/a.key"\n', out)
        self.assertEqual((self.folder / "lab/a.key").stat().st_mode & 0o777, 0o600)

    @unittest.skipIf(OPENSSL is None, "no openssl command")
    def test_what_is_revoked_openssl_refuses(self):
        for name in "ab":
            self.certs("issue", "lab", "--node", name, "--out", "for-" + name)
        self.assertIn('[security]\ncrl = "lab/crl.pem"\n', self.certs("revoke", "lab").stdout)
        self.assertEqual(json.loads(self.certs("revoke", "lab", "--node", "a", "--json").stdout),
                         {"crl": "lab/crl.pem", "added": 1, "revoked": 1, "warnings": []})
        check = "verify", "-crl_check", "-CRLfile", "lab/crl.pem", "-CAfile", "lab/ca.pem"
        self.openssl(*check, "for-b/b.pem")
        done = subprocess.run([OPENSSL, *check, "for-a/a.pem"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertIn("certificate revoked", done.stdout + done.stderr)
        self.assertIn('names no certificate that was issued to "c"', self.refused("revoke", "lab", "--node", "c"))

    @unittest.skipIf(OPENSSL is None, "no openssl command")
    def test_a_certificate_says_what_its_owner_may_be(self):
        self.assertIn('node "a", good until ', self.certs("issue", "lab", "--node", "a").stdout)
        self.assertIn('console "user", good until ', self.certs("issue", "lab", "--node", "user", "--role", "console").stdout)
        for name, role in ("a", "node"), ("user", "console"):
            self.assertIn(f"OU = {role}", self.openssl("x509", "-in", f"lab/{name}.pem", "-noout", "-subject"))
        self.assertIn("--role", self.refused("issue", "lab", "--node", "b", "--role", "king"))

    def test_json_names_the_files(self):
        done = self.certs("issue", "lab", "--node", "a", "--out", "for-a", "--json")
        made = json.loads(done.stdout)
        self.assertEqual((made["name"], made["ca"], made["certificate"], made["key"], made["warnings"]),
                         ("a", "for-a/ca.pem", "for-a/a.pem", "for-a/a.key", []))
        self.assertEqual(self.files("for-a"), ["a.key", "a.pem", "ca.pem"])
        self.assertEqual((self.folder / "for-a/ca.pem").read_bytes(), (self.folder / "lab/ca.pem").read_bytes())

    def test_a_name_is_given_once(self):
        self.certs("issue", "lab", "--node", "a")
        before = (self.folder / "lab/a.pem").read_bytes()
        said = self.refused("issue", "lab", "--node", "a")
        self.assertIn('lab/a.pem is the certificate of "a", good until ', said)
        self.assertIn("choose another name", said)
        self.assertEqual((self.folder / "lab/a.pem").read_bytes(), before)

    def test_wrong_requests_are_named_and_leave_nothing(self):
        before = self.files("lab")
        for arguments, expected in [
            (["issue", "nowhere", "--node", "a"], "there is no authority in nowhere; `troupe certs init nowhere` makes one"),
            (["issue", "lab", "--node", "ca"], '"ca" is no name for a node'),
            (["issue", "lab", "--node", "../a"], '"../a" is no name for a node'),
            (["issue", "lab", "--node", "a b"], '"a b" is no name for a node'),
            (["issue", "lab", "--node", "a", "--host", "b,IP:1.2.3.4"], '"b,IP:1.2.3.4" is no host'),
            (["issue", "lab", "--node", "a", "--host", "10.0.0.1:7070"], "without a port"),
            (["issue", "lab"], "--node is required"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(expected, self.refused(*arguments))
                self.assertEqual(self.files("lab"), before)

    def test_an_authority_whose_parts_do_not_fit_signs_nothing(self):
        self.certs("init", "other")
        shutil.copy(self.folder / "other/ca.key", self.folder / "lab/ca.key")
        self.assertIn("lab/ca.key is not the key of lab/ca.pem", self.refused("issue", "lab", "--node", "a"))
        (self.folder / "lab/ca.key").write_text("nothing")
        self.assertIn("lab/ca.key is not in PEM form", self.refused("issue", "lab", "--node", "a"))
        shutil.copy(self.folder / "other/ca.key", self.folder / "lab/ca.pem")
        self.assertIn("lab/ca.pem holds a PRIVATE KEY; a certificate is wanted", self.refused("issue", "lab", "--node", "a"))

    def test_a_folder_of_another_authority_gets_no_certificate_of_this_one(self):
        self.certs("init", "other")
        self.assertIn("other/ca.pem is of another authority", self.refused("issue", "lab", "--node", "a", "--out", "other"))
        self.assertEqual(self.files("other"), ["ca.key", "ca.pem"])

    def test_a_key_that_others_may_read_is_warned_of(self):
        (self.folder / "lab/ca.key").chmod(0o644)
        self.assertIn("warning: lab/ca.key has mode 0644", self.certs("issue", "lab", "--node", "a").stderr)

    def test_it_ends_with_its_authority(self):
        self.certs("init", "short", "--days", "3")
        made = json.loads(self.certs("issue", "short", "--node", "a", "--days", "365", "--json").stdout)
        authority = self.refused("init", "short")
        self.assertIn(made["until"], authority)

    @unittest.skipIf(OPENSSL is None, "no openssl command")
    def test_openssl_takes_it_for_a_server_and_for_a_client(self):
        self.certs("issue", "lab", "--node", "a", "--host", "10.0.0.1", "--host", "::1", "--host", "a.example")
        for purpose in "sslserver", "sslclient":
            self.openssl("verify", "-x509_strict", "-purpose", purpose, "-CAfile", "lab/ca.pem", "lab/a.pem")
        for name in "a", "a.example":
            self.openssl("verify", "-CAfile", "lab/ca.pem", "-verify_hostname", name, "lab/a.pem")
        for address in "10.0.0.1", "::1":
            self.openssl("verify", "-CAfile", "lab/ca.pem", "-verify_ip", address, "lab/a.pem")
        text = self.openssl("x509", "-in", "lab/a.pem", "-noout", "-text")
        for part in ("CA:FALSE", "TLS Web Server Authentication, TLS Web Client Authentication", "NIST CURVE: P-256", "Issuer: CN = lab"):
            self.assertIn(part, text)
        self.assertEqual(self.openssl("pkey", "-in", "lab/a.key", "-pubout"),
                         self.openssl("x509", "-in", "lab/a.pem", "-noout", "-pubkey"))

    @unittest.skipIf(OPENSSL is None, "no openssl command")
    def test_no_two_certificates_share_a_serial_number(self):
        serials = set()
        for name in "abcd":
            self.certs("issue", "lab", "--node", name)
            serials.add(self.openssl("x509", "-in", f"lab/{name}.pem", "-noout", "-serial"))
        self.assertEqual(len(serials), 4)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

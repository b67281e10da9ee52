package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSign checks that a signature verifies by its public key, and by minisign where it is installed, and
// that no changed byte of the file, the signature, its comment or the key does.
func TestSign(t *testing.T) {
	dir := t.TempDir()
	public, file := filepath.Join(dir, "bulkhead.pub"), filepath.Join(dir, "SHA256SUMS")
	var secret, out bytes.Buffer
	if err := newKey(&secret, public); err != nil {
		t.Fatal(err)
	}
	t.Setenv(secretName, secret.String())
	content := []byte("0123  bulkhead_1.0.0_linux_amd64.tar.gz\n")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	const comment = "bulkhead 1.0.0"
	if err := signFile(file, comment); err != nil {
		t.Fatal(err)
	}
	if err := verifyFile(&out, public, file); err != nil || out.String() != comment+"\n" {
		t.Fatalf("%q, %v", out.String(), err)
	}
	if minisign, err := exec.LookPath("minisign"); err == nil {
		if got, err := exec.Command(minisign, "-V", "-p", public, "-m", file).CombinedOutput(); err != nil ||
			!strings.Contains(string(got), comment) {
			t.Errorf("minisign: %v: %s", err, got)
		}
	}
	key, _ := os.ReadFile(public)
	signature, _ := os.ReadFile(file + ".minisig")
	for which, whole := range [][]byte{key, signature, content} {
		for at := range whole {
			parts := [][]byte{key, signature, content}
			parts[which] = bytes.Clone(whole)
			parts[which][at] ^= 1
			got, err := verify(parts[0], parts[1], parts[2])
			free := which < 2 && at <= bytes.IndexByte(whole, '\n') // the untrusted comment
			if err == nil && (!free && !sameBits(parts[which], whole) || got != comment) {
				t.Errorf("verifies with byte %d of file %d changed: %q", at, which, got)
			}
		}
	}
	if err := signFile(file, "two\nlines"); err == nil {
		t.Error("a comment of two lines was signed")
	}
	t.Setenv(secretName, "x")
	if err := signFile(file, comment); err == nil {
		t.Error("signed without a key")
	}
}

// sameBits reports whether a change concerns only the last line end, or bits of base64 that mean nothing.
func sameBits(a, b []byte) bool {
	a, b = bytes.TrimRight(a, "\n\x0b"), bytes.TrimRight(b, "\n\x0b")
	return bytes.Equal(a, b)
}

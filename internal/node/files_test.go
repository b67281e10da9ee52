package node

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// FuzzFiles checks arbitrary content of small files of the data folder. Content that can be read is
// written again unchanged. Other content is an error that names the file.
func FuzzFiles(f *testing.F) {
	names := []string{sealKeyFile, AdminTokenFile}
	for i, seeds := range [][]string{
		{strings.Repeat("0f", 32), strings.Repeat("0f", 32) + " 00000000", strings.Repeat("0f", 31), " ", "0x",
			strings.Repeat("g", 64)},
		{"token", "", "\n", strings.Repeat("x", 5000)},
	} {
		for _, s := range seeds {
			f.Add(i, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, which int, b []byte) {
		dir := t.TempDir()
		name := names[uint(which)%uint(len(names))]
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		switch name {
		case sealKeyFile:
			key := make([]byte, 32)
			if err = ReadKey(path, key); err == nil {
				if err := writeKey(path, key); err != nil {
					t.Fatal(err)
				}
				again := make([]byte, 32)
				if err := ReadKey(path, again); err != nil || !bytes.Equal(again, key) {
					t.Errorf("key %x is read again as %x, %v", key, again, err)
				}
			} else if len(b) <= 4096 && !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("%q: %v is not one of a malformed key", b, err)
			}
		case AdminTokenFile:
			var token string
			if token, err = ReadSecret(path); err == nil && token != strings.TrimSpace(token) {
				t.Errorf("token %q", token)
			}
		}
		if err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%q: the error does not name the file: %v", b, err)
		}
	})
}

package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// FuzzFiles checks arbitrary content of small files of the data folder. Content that can be read is
// written again unchanged. Other content is an error that names the file.
func FuzzFiles(f *testing.F) {
	names := []string{sparedFile, weightsFile, sealKeyFile, AdminTokenFile}
	for i, seeds := range [][]string{
		{"[]", "null", "{}", `[{"signature":"pyzor/digest:0123456789abcdef0123456789abcdef01234567","name":"a","time":"2026-11-23T00:00:00Z"}]`,
			`[{"signature":""}]`, "[", "\x00"},
		{"{}", "null", `{"ann":[{"time":1,"worth":0.5}],"bob":null}`, `{"ann":[{"time":-1,"worth":-1e300}]}`, "[]"},
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
		case sparedFile:
			n := newCore(config.Default(), dir, slog.New(slog.DiscardHandler))
			if err = n.spared.read(); err == nil {
				_, _ = n.spared.whitelist(config.Default()) // its error names a signature
			}
		case weightsFile:
			var w weights
			err = w.open(dir)
			if err := w.note(time.Unix(1e9, 0), map[string]float64{"ann": 0.25, "eve": 1}); err != nil {
				t.Fatalf("after %q: %v", b, err)
			}
			var again weights
			if err := again.open(dir); err != nil {
				t.Fatalf("what was written over %q cannot be read: %v", b, err)
			}
			for _, a := range again.all() {
				if a.Account != "ann" && a.Account != "eve" || len(a.Samples) == 0 {
					t.Errorf("an account that is gone is kept: %+v", a)
				}
			}
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

package manage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// FuzzFiles checks arbitrary content of the files of this package. Content that can be read is
// written again unchanged. Other content is an error that names the file.
func FuzzFiles(f *testing.F) {
	names := []string{WhitelistFile, WeightsFile}
	for i, seeds := range [][]string{
		{"[]", "null", "{}", `[{"signature":"pyzor/digest:0123456789abcdef0123456789abcdef01234567","name":"a",` +
			`"time":"2026-11-23T00:00:00Z"}]`,
			`[{"signature":""}]`, "[", "\x00"},
		{"{}", "null", `{"ann":[{"time":1,"worth":0.5}],"bob":null}`, `{"ann":[{"time":-1,"worth":-1e300}]}`, "[]"},
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
		case WhitelistFile:
			w := NewWhitelist(dir, config.Default, func(*engine.Whitelist) {})
			if err = w.Read(); err == nil {
				_, _ = w.With(config.Default()) // its error names a signature
			}
		case WeightsFile:
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
		}
		if err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%q: the error does not name the file: %v", b, err)
		}
	})
}

package charset

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNames checks which names are known, and which charsets are not ASCII below 0x80.
func TestNames(t *testing.T) {
	for name, stateful := range map[string]bool{
		"utf-8": false, "cp932": false, "dos-862": false, "cp1252": false, "koi8-r": false, "cp037": true, "IBM037": true,
		"iso-2022-jp": true, "utf-16": true, "utf-16le": true, "utf-7": true, "ucs-2": true, "hz-gb-2312": true,
		"cp1200": true, "unicode-1-1-utf-8": false,
	} {
		if !Legible(name) {
			t.Errorf("%s is not known", name)
		}
		if got := Stateful(Name(name)); got != stateful {
			t.Errorf("%s is stateful: %t, want %t", name, got, stateful)
		}
	}
	for _, name := range []string{"", "no-such", "cp", "cp99999", "windows-", "iso8859-99", "default_charset", "x-"} {
		if Named(name) != nil {
			t.Errorf("%q is known", name)
		}
	}
}

// FuzzNamed checks that any name and any text are taken, within the limits.
func FuzzNamed(f *testing.F) {
	f.Add("cp932", []byte("a"))
	f.Add("utf-16*en", []byte("\xff\xfea\x00"))
	f.Add("\"utf-7\"", []byte("+AOQ-+"))
	f.Add("utf-7", []byte("+0"+strings.Repeat("w", 100)))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if e := Named(name); e != nil {
			if _, err := e.NewDecoder().Bytes(data); err != nil && !strings.Contains(err.Error(), "encoding") &&
				!strings.Contains(err.Error(), "utf") && !strings.Contains(err.Error(), "transform") {
				t.Logf("%s: %v", name, err)
			}
		}
		if found := Sniffed(data, Name(name)); found != Name(name) && Named(found) == nil {
			t.Fatalf("%q of %q is not known", found, data)
		}
		const limit = 64
		text := FromUTF7(data, limit, func(int) bool { return false })
		if len(text) > limit || utf8.Valid(data) && !utf8.Valid(text) && len(data) < limit/2 {
			t.Fatalf("%q becomes %q", data, text)
		}
	})
}

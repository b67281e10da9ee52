package lists

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFuseList checks that a fuse list answers like the two-part list of the same text, is smaller,
// and refuses every change.
func TestFuseList(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "bad.txt")
	var lines strings.Builder
	const entries = 20_000
	for i := range entries {
		fmt.Fprintf(&lines, "name%d.example\nuser%d@host.example\n", i/2, i/2)
	}
	fmt.Fprintln(&lines, "192.0.2.0/24\n2001:db8::/32\nhttp://site.example/offers/")
	if err := os.WriteFile(text, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{NoHash, SHA1} {
		var made [2]*List
		var paths [2]string
		for i, structure := range []Structure{TwoPart, Fuse} {
			paths[i] = filepath.Join(dir, string(structure)+hash)
			r, err := Build(t.Context(), paths[i], []string{text}, Options{Structure: structure, Hash: hash, Reason: "seen"})
			if err != nil {
				t.Fatal(err)
			}
			if r.Lines != 2*entries+3 || r.New != entries+3 || r.Bad != 0 {
				t.Errorf("%s: %+v", structure, r)
			}
			if err := Allow(paths[i], []string{"good.name7.example"}); err != nil {
				t.Fatal(err)
			}
			if made[i], err = Open(paths[i], DefaultMaxBytes); err != nil {
				t.Fatal(err)
			}
			if made[i].Structure() != structure || made[i].Count() != entries+3 || !strings.HasPrefix(made[i].Shape(),
				string(structure)[:2]) && structure == TwoPart {
				t.Errorf("%s: %s, %s of %d", structure, made[i].Structure(), made[i].Shape(), made[i].Count())
			}
		}
		two, fuse := made[0], made[1]
		if fuse.Bytes() > two.Bytes()*85/100 || fuse.ErrorRate() > 1e-6 {
			t.Errorf("%d bytes at an error of %g, the two-part list %d", fuse.Bytes(), fuse.ErrorRate(), two.Bytes())
		}
		for _, ask := range []string{
			"name0.example", "www.name9999.example", "name10000.example", "good.name7.example", "x@name3.example",
			"user5@host.example", "other@host.example",
			"192.0.2.77", "192.0.3.1", "2001:db8:1::1", "http://site.example/offers/1?x=2", "http://site.example/",
			"nobody.example",
		} {
			e, err := ParseEntry(ask)
			if err != nil {
				t.Fatal(err)
			}
			want, found := two.Find(e)
			got, foundToo := fuse.Find(e)
			want.List, want.Error, want.Built, got.List, got.Error = "", 0, got.Built, "", 0
			if found != foundToo || got != want {
				t.Errorf("%s: %+v %v, the two-part list %+v %v", ask, got, foundToo, want, found)
			}
		}
		if a := netip.MustParseAddr("192.0.2.9"); !fuse.hasAddr(a) || fuse.hasAddr(netip.MustParseAddr("192.0.9.9")) {
			t.Error("addresses are not found as DNS asks for them")
		}
		before, err := os.ReadFile(paths[1])
		if err != nil {
			t.Fatal(err)
		}
		_, addErr := Add(t.Context(), paths[1], DefaultMaxBytes, []string{text}, true, Options{})
		_, mergeErr := Merge(paths[1], DefaultMaxBytes, []string{paths[0], paths[1]}, nil)
		_, diffErr := Diff(fuse, two)
		_, likeErr := Build(t.Context(), paths[1], []string{text}, Options{Like: fuse})
		_, roomErr := Build(t.Context(), paths[1], []string{text}, Options{Structure: Fuse, Capacity: 1e6})
		for what, err := range map[string]error{"add": addErr, "merge": mergeErr, "diff": diffErr, "like": likeErr,
			"capacity": roomErr} {
			if !errors.Is(err, ErrStatic) {
				t.Errorf("%s: %v, want ErrStatic", what, err)
			}
		}
		if after, err := os.ReadFile(paths[1]); err != nil || !bytes.Equal(before, after) {
			t.Error("what was refused has changed the list")
		}
		if d, err := fuse.DiffNewer(t.Context(), text, nil); err != nil || d.New != entries+3 || d.Added != 0 {
			t.Errorf("compared with its text: %+v, %v", d, err)
		}
		damaged(t, before, 977)
	}
	for _, o := range []Options{{Structure: "cuckoo"}, {Structure: Fuse, Error: 1e-12}, {Structure: Fuse, Error: 2}} {
		if _, err := Build(t.Context(), filepath.Join(dir, "x"), []string{text}, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// damaged reads a list with every step-th byte changed, cut off there, and with one byte too many:
// all of these are refused.
func damaged(t *testing.T, file []byte, step int) {
	t.Helper()
	for i := 0; i < len(file); i += step {
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		if _, err := Read(bytes.NewReader(bad), DefaultMaxBytes); err == nil {
			t.Fatalf("byte %d changed, and read", i)
		}
		if _, err := Read(bytes.NewReader(file[:i]), DefaultMaxBytes); err == nil {
			t.Fatalf("cut to %d bytes, and read", i)
		}
	}
	if _, err := Read(bytes.NewReader(append(file, 0)), DefaultMaxBytes); err == nil {
		t.Error("a byte behind the end, and read")
	}
}

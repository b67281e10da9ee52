package waiting

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shared makes an empty shared folder for the test.
func shared(t *testing.T) string {
	t.Helper()
	before := Shared
	t.Cleanup(func() { Shared = before })
	Shared = filepath.Join(t.TempDir(), "spool")
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	if err := errors.Join(os.Mkdir(Shared, 0o777), os.Chmod(Shared, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	return Shared
}

func vote(n int) *Vote {
	return &Vote{ID: fmt.Sprint(n), Time: time.Unix(1000, int64(n)), Vote: "spam", Raw: fmt.Appendf(nil, "A: b\n\n%d", n)}
}

// TestOrder keeps votes, sends them while the node fails in the middle, and finds each sent once, in the
// order in which they were cast.
func TestOrder(t *testing.T) {
	shared(t)
	rapid.Check(t, func(r *rapid.T) {
		f, err := Make()
		if err != nil {
			r.Fatal(err)
		}
		n := rapid.IntRange(0, 20).Draw(r, "votes")
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})).Draw(r, "order")
		for _, i := range order {
			if err := f.Keep(vote(i)); err != nil {
				r.Fatal(err)
			}
		}
		var sent, lost []string
		for failing := true; failing; {
			left := rapid.IntRange(0, 5).Draw(r, "before the node fails")
			_, err := f.Send(func(v *Vote) error {
				if left--; left < 0 {
					return fmt.Errorf("away: %w", ErrLater)
				}
				if !bytes.HasSuffix(v.Raw, []byte(v.ID)) {
					r.Fatalf("vote %s has the message %q", v.ID, v.Raw)
				}
				sent = append(sent, v.ID)
				if v.ID == "3" {
					return errors.New("refused for good")
				}
				return nil
			}, func(_ string, err error) { lost = append(lost, err.Error()) })
			if failing = err != nil; failing && !errors.Is(err, ErrLater) {
				r.Fatal(err)
			}
		}
		for i := range n {
			if i >= len(sent) || sent[i] != fmt.Sprint(i) {
				r.Fatalf("sent %q, want %d in their order", sent, n)
			}
		}
		if wantLost := n > 3; (len(lost) == 1) != wantLost || len(sent) != n {
			r.Fatalf("sent %q, refused %q", sent, lost)
		}
		if s, err := f.State(); err != nil || s.Votes != 0 {
			r.Fatalf("%d votes are left, %v", s.Votes, err)
		}
	})
}

func TestLimits(t *testing.T) {
	shared(t)
	f, err := Make()
	if err != nil {
		t.Fatal(err)
	}
	for i := range MaxVotes {
		name := filepath.Join(f.Path, fmt.Sprintf("%019d-x%s", i, suffix))
		if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Keep(vote(1)); !errors.Is(err, ErrFull) {
		t.Errorf("one vote above the limit: %v", err)
	}
	if s, err := f.State(); err != nil || s.Votes != MaxVotes || !s.Oldest.Equal(time.Unix(0, 0)) {
		t.Errorf("%+v, %v", s, err)
	}
	n, err := f.Send(func(*Vote) error { return nil }, func(string, error) {})
	if err != nil || n != 0 {
		t.Fatalf("files without a vote: %d sent, %v", n, err)
	}
	large := vote(1)
	large.Raw = make([]byte, MaxBytes)
	if err := f.Keep(large); !errors.Is(err, ErrFull) {
		t.Errorf("a vote above the limit of bytes: %v", err)
	}
}

// TestFolders checks that what other users may have put into the shared folder is no folder.
func TestFolders(t *testing.T) {
	dir := shared(t)
	elsewhere := t.TempDir()
	if err := errors.Join(os.Symlink(elsewhere, filepath.Join(dir, "0-link")),
		os.WriteFile(filepath.Join(dir, "0-file"), nil, 0o600), os.Mkdir(filepath.Join(dir, "0-open"), 0o755),
		os.Chmod(filepath.Join(dir, "0-open"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if all := Folders(); len(all) != 0 {
		t.Fatalf("folders: %v", all)
	}
	f, err := Make()
	if err != nil || !strings.HasPrefix(f.Path, dir) {
		t.Fatalf("%v, %v", f, err)
	}
	again, err := Make()
	if err != nil || again != f {
		t.Errorf("a second call makes %v, %v; want %v", again, err, f)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(f.Path, 4711, 4711); err != nil {
			t.Fatal(err)
		}
		if other, err := Make(); err != nil || other == f {
			t.Errorf("the folder of another user is taken: %v, %v", other, err)
		}
	}
	Shared = filepath.Join(dir, "missing")
	if f, err := Make(); err != nil || !strings.Contains(f.Path, "state") {
		t.Errorf("without a shared folder: %v, %v", f, err)
	}
}

// A file in a folder that is a link, a pipe or garbage is refused and does not stop the others.
func TestGarbage(t *testing.T) {
	shared(t)
	f, err := Make()
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	for name, text := range map[string]string{"0-a": "no vote", "0-b": "{\"vote\":\"spam\"}\n", "0-c": "{\n", "0-d": ""} {
		if err := os.WriteFile(filepath.Join(f.Path, name+suffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(secret, []byte("{\"vote\":\"spam\"}\nsecret"), 0o600),
		os.Symlink(secret, filepath.Join(f.Path, "0-e"+suffix)), f.Keep(vote(7))); err != nil {
		t.Fatal(err)
	}
	var ids []string
	refused := 0
	n, err := f.Send(func(v *Vote) error {
		ids = append(ids, v.ID)
		return nil
	}, func(string, error) { refused++ })
	if err != nil || n != 1 || refused != 4 || !slices.Equal(ids, []string{"7"}) {
		t.Errorf("%d sent (%q), %d refused, %v", n, ids, refused, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("{\"id\":\"1\",\"vote\":\"spam\",\"time\":\"2026-01-02T03:04:05Z\"}\nSubject: a\n\nb"))
	f.Add([]byte("{\"vote\":\"ham\",\"message_id\":\"<a@b>\"}\n"))
	f.Add([]byte("{\"vote\":\"spam\",\"dkim\":[\"a\"]}\n\x00"))
	f.Add([]byte("\n\n"))
	f.Add([]byte("{\"vote\":\"spam\"}"))
	f.Add([]byte("{\"vote\":\"spam\"}\n"))
	f.Add([]byte("[]\nSubject: a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parse(text)
		if err != nil {
			return
		}
		if v.Vote == "" || len(v.Raw) == 0 && v.MessageID == "" {
			t.Errorf("%q is read as %+v", text, v)
		}
	})
}

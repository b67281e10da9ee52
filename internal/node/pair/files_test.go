package pair

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretFollowsFormer changes the secret of a first node at each step of a copy of its files, and ends the
// connection after each file. The second node always has the former secret among its former secrets once it has the new
// one: it could not open its store otherwise, and would not share what was counted before.
func TestSecretFollowsFormer(t *testing.T) {
	const secret, former = "secret", "former"
	write := func(dir, name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	steps := 0
	for changeAt := range 4 {
		for kept := range 3 {
			first, second := t.TempDir(), t.TempDir()
			for _, dir := range []string{first, second} {
				write(dir, secret, "old")
				write(dir, former, "older")
			}
			asked := 0
			change := func() {
				if asked++; asked == changeAt+1 {
					write(first, former, "older than the new one: old, older")
					write(first, secret, "a new one")
				}
			}
			p := &Pair{dir: first, o: Options{Files: Files{
				Names:  func() []string { change(); return []string{secret, former} },
				Copies: func(string) bool { change(); return true },
				Own:    func(string) bool { return false },
			}}}
			marks := make(map[string]string)
			for range 2 { // the second time has what the first one missed
				sent, err := p.files(marks)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range sent[:min(kept, len(sent))] {
					write(second, f.Name, string(f.Content))
					if read(second, secret) == "a new one" && !strings.Contains(read(second, former), "old,") {
						t.Errorf("changed at step %d: the second node has the new secret, and the former ones are %q", changeAt,
							read(second, former))
					}
					steps++
				}
			}
		}
	}
	if steps == 0 {
		t.Error("no file was sent")
	}
}

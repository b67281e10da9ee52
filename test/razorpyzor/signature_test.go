//go:build interop

package razorpyzor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/sharedtest"
	"github.com/bulkhead-mail/bulkhead/signature/pyzor"
	"github.com/bulkhead-mail/bulkhead/signature/razor"
)

// corpus returns the real mails to compare: all with BULKHEAD_FULL=1, else one
// of 25.
func corpus(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, name := range []string{"spamassassin-2002", "csdmc-2009-2010", "phishing-2004-2005", "phishing-pot-2023-2024", "lists-2019-2020"} {
		found, err := filepath.Glob(filepath.Join(sharedtest.Unpack(t, name), "*.eml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no mails of %s: %v", name, err)
		}
		files = append(files, found...)
	}
	if os.Getenv("BULKHEAD_FULL") != "1" {
		var sample []string
		for i := 0; i < len(files); i += 25 {
			sample = append(sample, files[i])
		}
		files = sample
	}
	return files
}

// TestRazorSignatures compares our signatures with those of razor-check, part by
// part, in its order.
func TestRazorSignatures(t *testing.T) {
	nodetest.Program(t, "razor-check")
	files := corpus(t)
	n := startNode(t, "") // the client wants to know its parameters
	home := t.TempDir()
	compared, different := 0, 0
	for chunk := range slices.Chunk(files, 200) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		args := append([]string{"-home=" + home, "-rs=" + n.razor, "-H"}, chunk...)
		out, err := exec.CommandContext(ctx, "razor-check", args...).Output()
		cancel()
		if len(out) == 0 {
			t.Fatalf("razor-check -H: %v", err)
		}
		theirs := make(map[int][]string) // by number of the mail
		for line := range bytes.Lines(out) {
			var mail, part int
			var engine, sig string
			if _, err := fmt.Sscanf(string(line), "%d.%d %s %s", &mail, &part, &engine, &sig); err == nil {
				theirs[mail] = append(theirs[mail], engine+strings.TrimSuffix(sig, ","))
			}
		}
		number := 0
		for _, file := range chunk {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, mail := range razor.Mails(raw) {
				number++
				var ours []string
				parts, err := razor.Parts(t.Context(), mail)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range parts {
					ours = append(ours, "e4:"+razor.Text(p.E4.Sum()))
					for _, s := range p.E8 {
						ours = append(ours, "e8:"+razor.Text(s.Sum()))
					}
				}
				compared += len(theirs[number])
				if !slices.Equal(ours, theirs[number]) {
					different++
					t.Errorf("%s: %v, razor-check has %v", file, ours, theirs[number])
				}
			}
		}
	}
	t.Logf("%d mails, %d signatures of razor-check, %d mails differ", len(files), compared, different)
}

// oracle prints the digest of each file that standard input names, by the code of
// the installed client.
const oracle = `
import email, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, "/usr/lib/python3/dist-packages")
import pyzor.digest
for name in sys.stdin:
    try:
        with open(name.rstrip("\n"), "rb") as f:
            print(pyzor.digest.DataDigester(email.message_from_bytes(f.read())).value)
    except Exception:
        print("-")
`

// TestPyzorDigests compares our digests with those of the client.
func TestPyzorDigests(t *testing.T) {
	nodetest.Program(t, "pyzor")
	files := corpus(t)
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", oracle)
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client's digests: %v", err)
	}
	theirs := bufio.NewScanner(bytes.NewReader(out))
	different := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !theirs.Scan() {
			t.Fatalf("%s: the client has no more digests", file)
		}
		ours := "-"
		if sum, ok, _ := pyzor.Sum(t.Context(), raw); ok {
			ours = hex.EncodeToString(sum[:])
		}
		if ours != theirs.Text() {
			different++
			t.Errorf("%s: digest %s, the client has %s", file, ours, theirs.Text())
		}
	}
	t.Logf("%d mails, %d digests differ", len(files), different)
}

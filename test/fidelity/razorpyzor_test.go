//go:build interop

package fidelity

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

	"github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestRazor compares our signatures with those that razor-check prints, part by part and in
// its order.
func TestRazor(t *testing.T) {
	nodetest.Program(t, "razor-check")
	server := startRazorServer(t) // the client wants to know its parameters
	home := t.TempDir()
	count := newTally(t, "razor", map[string]float64{"": 0.999})
	for chunk := range slices.Chunk(append(real(t, 25), made(t, 4)...), 200) {
		theirs := razorCheck(t, home, server, chunk)
		number := 0
		for _, s := range chunk {
			var ours, printed []string
			for _, raw := range razor.Mails(s.raw(t)) {
				number++
				printed = append(printed, theirs[number]...)
				parts, err := razor.Parts(t.Context(), raw)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range parts {
					ours = append(ours, "e4:"+razor.Text(p.E4.Sum()))
					for _, e8 := range p.E8 {
						ours = append(ours, "e8:"+razor.Text(e8.Sum()))
					}
				}
			}
			count.compare(s.source, s.name, slices.Equal(ours, printed), "%v, razor-check has %v", ours, printed)
		}
	}
	count.report()
}

// startRazorServer runs a node with the door for Razor and returns its address.
func startRazorServer(t *testing.T) string {
	t.Helper()
	dir, address := t.TempDir(), nodetest.Address(t)
	config := filepath.Join(dir, "bulkhead.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "[listen]\nrazor2 = %q\n", address), 0o600); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", config, "--data", filepath.Join(dir, "data"))
	nodetest.AwaitTCP(t, address)
	return address
}

// razorCheck returns what razor-check prints of mails, by the number that it gives them.
func razorCheck(t *testing.T, home, server string, mails []sample) map[int][]string {
	t.Helper()
	args := []string{"-home=" + home, "-rs=" + server, "-H"}
	for _, s := range mails {
		args = append(args, s.path)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "razor-check", args...).Output()
	if len(out) == 0 {
		t.Fatalf("razor-check -H: %v", err)
	}
	printed := make(map[int][]string)
	for line := range bytes.Lines(out) {
		var mail, part int
		var engine, sig string
		if _, err := fmt.Sscanf(string(line), "%d.%d %s %s", &mail, &part, &engine, &sig); err == nil {
			printed[mail] = append(printed[mail], engine+strings.TrimSuffix(sig, ","))
		}
	}
	return printed
}

// pyzorClient prints the digest of each file that standard input names, by the code of the
// installed client.
const pyzorClient = `
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

// TestPyzor compares bulkhead's digests with the client's digests.
func TestPyzor(t *testing.T) {
	nodetest.Program(t, "pyzor")
	mails := append(real(t, 25), made(t, 4)...)
	var names strings.Builder
	for i := range mails {
		names.WriteString(mails[i].path + "\n")
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", pyzorClient)
	cmd.Stdin = strings.NewReader(names.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client's digests: %v", err)
	}
	theirs := bufio.NewScanner(bytes.NewReader(out))
	count := newTally(t, "pyzor", map[string]float64{"": 0.999})
	for i := range mails {
		s := &mails[i]
		if !theirs.Scan() {
			t.Fatalf("%s: the client has no more digests", s.name)
		}
		ours := "-"
		if sum, ok, _ := pyzor.Sum(t.Context(), s.raw(t)); ok {
			ours = hex.EncodeToString(sum[:])
		}
		count.compare(s.source, s.name, ours == theirs.Text(), "%s, the client has %s", ours, theirs.Text())
	}
	count.report()
}

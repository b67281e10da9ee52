//go:build interop

package mta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// rangesFor returns a data set of an rbldnsd kind: addresses, networks, ranges and partial addresses below
// 10.0.0.0/13, exclusions, values and comments. Ranges with values of their own do not overlap: rbldnsd's
// answer about such depends on its representation.
func rangesFor(r *rand.Rand, kind string) string {
	var b strings.Builder
	b.WriteString("$SOA 1w ns.example.com admin.example.com 0 2h 2h 1w 1h\n$TTL 35m\n$1 open relay\n# a comment\n" +
		"; another\n:127.0.0.2:listed, see https://lists.example.com/?$\n")
	value := func() string {
		return []string{"", "", " ; comment", " :3:an $1 at $", " :127.0.0.4", " :5: five", " only a text, $$ 5"}[r.IntN(7)]
	}
	for i := range 64 { // each in a /21 of its own
		low, high := 8*(i%32), 8*(i%32)+7
		at := fmt.Sprintf("10.%d", i/32)
		inside := func() int { return low + r.IntN(8) }
		bits := 29 // of what is excluded there; a list refuses an entry inside a larger exclusion
		var line string
		switch r.IntN(6) {
		case 0:
			line, bits = fmt.Sprintf("%s.%d.%d", at, inside(), r.IntN(256)), 32
		case 1:
			line = fmt.Sprintf("%s.%d", at, inside())
		case 2:
			line = fmt.Sprintf("%s.%d/21", at, low)
		case 3:
			line, bits = fmt.Sprintf("%s.%d.%d/%d", at, inside(), 64*r.IntN(4), 26+r.IntN(7)), 32
		case 4:
			line = fmt.Sprintf("%s.%d-%d", at, low, high-r.IntN(3))
		case 5:
			first := r.IntN(200)
			line, bits = fmt.Sprintf("%s.%d.%d-%d", at, inside(), first, first+r.IntN(56)), 32
		}
		if kind == "ip4trie" && strings.Contains(line, "-") {
			line = fmt.Sprintf("%s.%d/22", at, low)
		}
		b.WriteString(line + value() + "\n")
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "!%s.%d.%d/%d\n", at, inside(), 128*r.IntN(2), bits)
		}
	}
	return b.String()
}

// TestRbldnsd serves files of rbldnsd by rbldnsd itself and by a node that has built a list of each with
// --rbldnsd, and wants the same answers about addresses in and around all entries. A node answers a TXT
// question about an entry with its text; so does rbldnsd.
func TestRbldnsd(t *testing.T) {
	program := nodetest.Program(t, "rbldnsd")
	dir, err := os.MkdirTemp("", "bulkhead-rbldnsd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	n := newNode(t, "")
	config, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	text := string(config)
	theirs := nodetest.Address(t)
	args := []string{"-n", "-u", "nobody", "-b", strings.Replace(theirs, ":", "/", 1)}
	zones := make(map[string]string) // by name: the file
	for i := range 6 {
		kind := []string{"ip4set", "ip4trie"}[i%2]
		name := fmt.Sprintf("z%d.example.com", i)
		zones[name] = rangesFor(r, kind)
		file := fmt.Sprintf("%s/%d", dir, i)
		writeFile(t, file, "%s", zones[name])
		n.bulkhead(t, "", "list", "build", file+".list", file, "--rbldnsd", kind)
		text += fmt.Sprintf(
			"[[lists.list]]\nname = \"%d\"\npath = %q\n"+
				"[[dnsbl.zone]]\nname = %q\nlist = \"%d\"\nform = \"ip\"\n", i, file+".list", name, i)
		args = append(args, name+":"+kind+":"+file)
	}
	writeFile(t, n.config, "%s", text)
	n.start(t)
	nodetest.Start(t, exec.Command(program, args...))
	ours, their := asker(n.dns), asker(theirs)
	nodetest.Await(t, "rbldnsd", func() bool {
		_, err := their.LookupHost(t.Context(), "2.0.0.127.z0.example.com.")
		return err == nil || strings.Contains(err.Error(), "no such host")
	})

	asked, hits := 0, 0
	for name, file := range zones {
		for range 400 {
			host := fmt.Sprintf("%d.%d.%d.10.%s.", r.IntN(256), r.IntN(256), r.IntN(3), name)
			our, code := answers(t, ours, host)
			want, theirCode := answers(t, their, host)
			if our != want || code != theirCode {
				t.Fatalf("%s: %s %s, rbldnsd answers %s %s; from the file\n%s", host, code, our, theirCode, want, file)
			}
			if asked++; code != "" {
				hits++
			}
		}
	}
	t.Logf("%d questions to 6 zones, %d listed: the answers of both are the same", asked, hits)
	if hits < 100 || hits > asked-100 {
		t.Errorf("%d of %d addresses are listed", hits, asked)
	}
}

// asker returns a resolver that asks one server.
func asker(address string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
}

// answers returns the texts and the codes of a name, "" if it is not listed.
func answers(t *testing.T, r *net.Resolver, name string) (texts, codes string) {
	t.Helper()
	all, err := r.LookupHost(t.Context(), name)
	var wrong *net.DNSError
	if err != nil {
		if errors.As(err, &wrong) && wrong.IsNotFound {
			return "", ""
		}
		t.Fatalf("%s: %v", name, err)
	}
	words, err := r.LookupTXT(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	slices.Sort(all)
	return strings.Join(words, "|"), strings.Join(all, "|")
}

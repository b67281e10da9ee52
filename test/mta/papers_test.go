//go:build interop

package mta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestFinchOnNode measures the table of Finch's text on a running node: of
// senders that have used a multiple of their limit, the chance that one more
// recipient is taken for an old one. In a period of a day the rate is the number
// of recipients that were counted.
func TestFinchOnNode(t *testing.T) {
	const limit = 200
	n := newNode(t, fmt.Sprintf(`
[[ratelimit]]
name = "rcpts"
key = "{sender}"
unique = "{recipient}"
limit = %d
period = "24h"
mode = "strict"
action = "dunno"
`, limit))
	n.start(t)
	for _, row := range []struct {
		multiple, keys int
		printed        float64
	}{{1, 20, 1.0 / 1700}, {2, 15, 1.0 / 40}, {4, 10, 1 / 3.2}} {
		missed, asked := 0.0, 0
		for k := range row.keys {
			sender := fmt.Sprintf("s%d-%d@example.org", row.multiple, k)
			before := 0.0
			for i := range row.multiple * limit {
				before = n.rate(t, sender, fmt.Sprintf("r%d-%d@example.com", k, i))
			}
			after := before
			const further = limit / 10
			for i := range further {
				after = n.rate(t, sender, fmt.Sprintf("new%d-%d@example.com", k, i))
			}
			asked += further
			missed += further - math.Round(after-before)
		}
		expected := row.printed * float64(asked)
		t.Logf("%d x limit: printed 1 in %.1f, measured %.0f of %d", row.multiple, 1/row.printed, missed, asked)
		// The questions add to the filter themselves, up to a tenth of the limit; a
		// sender above his limit misses some of his own filling.
		if hi := 1.7*expected + 4*math.Sqrt(expected) + 2; missed > hi || missed < expected/2-4*math.Sqrt(expected) {
			t.Errorf("%d x limit: %.0f of %d recipients were taken for old ones, expected %.1f", row.multiple, missed,
				asked, expected)
		}
	}
}

// TestTwoPartOnNode measures a claim of Jiang & Zhao with lists that a node serves: two
// sections together have the wanted error at the size of one filter if the second one has an
// independent hash. If it has a feature that all names share, the first section does all the
// work and the second is wasted.
func TestTwoPartOnNode(t *testing.T) {
	const entries, asked, wanted = 20_000, 20_000, 1e-2
	random := rand.New(rand.NewPCG(7, 7))
	name := func(prefix string) string {
		b := []byte(prefix)
		for range 10 {
			b = append(b, 'a'+byte(random.IntN(26)))
		}
		return string(b) + ".example"
	}
	var lines []string
	for range entries {
		lines = append(lines, name("in-"))
	}
	n := newNode(t, "")
	config := ""
	for _, eigen := range []string{"hash", "length"} {
		path := n.list(t, eigen+".list", []string{"--exact", "--error", fmt.Sprint(wanted), "--eigenvalue", eigen}, lines...)
		config += fmt.Sprintf(
			"[[lists.list]]\nname = %q\npath = %q\n[[dnsbl.zone]]\nname = \"%s.bl.example.com\"\nlist = %q\nform = \"domain\"\n",
			eigen, path, eigen, eigen)
	}
	writeFile(t, n.config, "[listen]\nhttp = %q\nmilter = %q\ndnsbl = %q\n%s", n.http, n.milter, n.dns, config)
	n.start(t)
	c, err := net.Dial("udp", n.dns)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	listed := func(name string) bool {
		t.Helper()
		q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA,
			Class: dnsmessage.ClassINET}}}
		packed, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 512)
		c.SetDeadline(time.Now().Add(nodetest.Patience))
		if _, err = c.Write(packed); err == nil {
			var k int
			if k, err = c.Read(buf); err == nil {
				err = q.Unpack(buf[:k])
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return len(q.Answers) == 1
	}
	for _, eigen := range []string{"hash", "length"} {
		zone := "." + eigen + ".bl.example.com."
		for _, line := range lines[:500] {
			if !listed(line + zone) {
				t.Fatalf("%s: %s is not listed", eigen, line)
			}
		}
		found := 0
		for range asked {
			if listed(name("out") + zone) {
				found++
			}
		}
		measured := float64(found) / asked
		t.Logf("eigenvalue %s: wanted %.2g, measured %.2g", eigen, wanted, measured)
		if wide := math.Abs(measured - wanted); wide > 0.15*wanted+5*math.Sqrt(wanted/asked) {
			t.Errorf("eigenvalue %s: measured %g, stated %g", eigen, measured, wanted)
		}
	}
	size := func(eigen string) float64 {
		info, err := os.Stat(filepath.Join(n.dir, eigen+".list"))
		if err != nil {
			t.Fatal(err)
		}
		return float64(info.Size())
	}
	one := entries * math.Log2(1/wanted) / math.Ln2 / 8 // bytes of a Bloom filter of that error
	t.Logf("bytes, one Bloom filter being 1: hash %.2f, length %.2f", size("hash")/one, size("length")/one)
	if size("hash") > 1.1*one || size("length") < 1.2*size("hash") {
		t.Errorf("lists of %.0f and %.0f bytes, one filter %.0f: want about one filter, and a fifth more", size("hash"),
			size("length"), one)
	}
}

//go:build interop

package razorpyzor

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/razor2"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A razorHome is a user of the razor commands.
type razorHome struct {
	t      *testing.T
	dir    string
	server string // "" to use discovery
}

func (h *razorHome) run(want int, name string, args ...string) string {
	h.t.Helper()
	all := []string{"-home=" + h.dir}
	if h.server != "" {
		all = append(all, "-rs="+h.server)
	}
	code, out := nodetest.Command(h.t, "", name, append(all, args...)...)
	if code != want {
		h.t.Errorf("%s %s: exit %d, want %d\n%s", name, strings.Join(args, " "), code, want, out)
	}
	return out
}

const (
	isSpam  = 0
	notSpam = 1
	failed  = 2
)

func newHome(t *testing.T, n *node, user string) *razorHome {
	t.Helper()
	h := &razorHome{t: t, dir: t.TempDir(), server: n.razor}
	if user != "" {
		h.run(0, "razor-admin", "-register", "-user="+user, "-pass=s3cret")
	}
	return h
}

func TestRazorReportAndRevoke(t *testing.T) {
	n := startNode(t, "")
	h := newHome(t, n, "ana@example.org")
	for kind, path := range writeMails(t) {
		t.Run(kind, func(t *testing.T) {
			h := &razorHome{t: t, dir: h.dir, server: h.server}
			h.run(notSpam, "razor-check", path)
			h.run(0, "razor-report", "-f", path)
			h.run(isSpam, "razor-check", path)
			h.run(0, "razor-revoke", "-f", path)
			h.run(notSpam, "razor-check", path)
			h.run(0, "razor-report", "-f", path)
			// Reported again by the same user in the same week: whether it is
			// listed again is for the trust model to say, but it is no error.
		})
	}
	if list := n.cli("user", "list"); !strings.Contains(list, "ana@example.org") {
		t.Errorf("user list:\n%s", list)
	}
}

// TestRazorDiscovery: the clients find the server by themselves, and what was
// learnt outlives the node.
func TestRazorDiscovery(t *testing.T) {
	n := startNode(t, "")
	h := &razorHome{t: t, dir: t.TempDir()}
	conf := fmt.Sprintf("razorhome = %s\nrazordiscovery = %s\nlogfile = razor-agent.log\ndebuglevel = 9\n", h.dir, n.razor)
	if err := os.WriteFile(filepath.Join(h.dir, "razor-agent.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(0, "razor-admin", "-create")
	h.run(0, "razor-admin", "-register", "-user=ana", "-pass=s3cret")
	path := writeMails(t)["multipart"]
	h.run(notSpam, "razor-check", path)
	h.run(0, "razor-report", "-f", path)
	h.run(isSpam, "razor-check", path)
	n.process.Stop()
	h.run(failed, "razor-check", path)
	n.start()
	h.run(isSpam, "razor-check", path)
	h.run(0, "razor-revoke", "-f", path)
	h.run(notSpam, "razor-check", path)

	// With one name to choose from, a check repeats the discovery of both lists.
	log := filepath.Join(h.dir, "razor-agent.log")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	h.run(notSpam, "razor-check", path)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "Connection established"); got > 3 {
		t.Errorf("a check took %d connections, want at most 3:\n%s", got, text)
	}
}

// TestRazorFirstReport: the first report of a client with an empty home works, each time.
func TestRazorFirstReport(t *testing.T) {
	n := startNode(t, "")
	path := writeMails(t)["multipart"]
	for range 20 {
		h := &razorHome{t: t, dir: t.TempDir()}
		conf := fmt.Sprintf("razorhome = %s\nrazordiscovery = %s\n", h.dir, n.razor)
		if err := os.WriteFile(filepath.Join(h.dir, "razor-agent.conf"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		h.run(0, "razor-admin", "-create")
		h.run(0, "razor-admin", "-register", "-user="+fmt.Sprintf("u%d@example.org", rand.Uint32()), "-pass=s3cret")
		h.run(0, "razor-report", "-f", path)
		h.run(isSpam, "razor-check", path)
	}
}

func TestRazorMailbox(t *testing.T) {
	n := startNode(t, "")
	h := newHome(t, n, "ana")
	h.run(0, "razor-report", "-f", writeMails(t)["multipart"])
	var box strings.Builder
	for _, kind := range []string{"plain", "multipart", "base64", "nested", "multipart"} {
		box.WriteString("From someone Mon Jan  2 15:04:05 2006\n" + mails[kind] + "\n")
	}
	path := filepath.Join(t.TempDir(), "box")
	if err := os.WriteFile(path, []byte(box.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(h.run(isSpam, "razor-check", path)); fmt.Sprint(got) != "[2 5]" {
		t.Errorf("spam mails %v, want 2 and 5", got)
	}
	h.run(0, "razor-report", "-f", path)
	if got := strings.Fields(h.run(isSpam, "razor-check", path)); len(got) != 5 {
		t.Errorf("spam mails %v, want all five", got)
	}
}

// TestRazorManyParts: more rows than one batch takes.
func TestRazorManyParts(t *testing.T) {
	n := startNode(t, "")
	h := newHome(t, n, "ana")
	var mail strings.Builder
	mail.WriteString("From: a@sender.example\nContent-Type: multipart/mixed; boundary=b\n\n")
	for i := range 130 {
		fmt.Fprintf(&mail,
			"--b\nContent-Type: text/plain\n\nThis is the text of part number %d of many, and it is long enough.\n", i)
	}
	mail.WriteString("--b--\n")
	path := filepath.Join(t.TempDir(), "mail")
	if err := os.WriteFile(path, []byte(mail.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(notSpam, "razor-check", path)
	h.run(0, "razor-report", "-f", path)
	h.run(isSpam, "razor-check", "-lm=5", path) // every part
	h.run(0, "razor-revoke", "-f", path)
	h.run(notSpam, "razor-check", path)
}

// TestRazorLongMail: of a body of more than 60 KiB the client sends the beginning, and the reader of mail knows the
// report. Lines of a header within the body begin no part.
func TestRazorLongMail(t *testing.T) {
	n := startNode(t, "")
	h := newHome(t, n, "ana")
	var mail strings.Builder
	mail.WriteString("From: a@sender.example\nSubject: letters\n\n\n---1.2\n" +
		"Content-Type: text/plain; charset=iso-8859-1\n\n")
	for i := range 1000 {
		fmt.Fprintf(&mail, "This is the line with the number %d of a letter that has no end.<br>\n", i)
	}
	path := filepath.Join(t.TempDir(), "mail")
	if err := os.WriteFile(path, []byte(mail.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := razor.Parts(t.Context(), []byte(mail.String()))
	if err != nil || len(parts) != 1 {
		t.Fatalf("%d parts, %v, want one part", len(parts), err)
	}
	for _, reported := range []bool{false, true} {
		want := notSpam
		if reported {
			h.run(0, "razor-report", "-f", path)
			want = isSpam
		}
		h.run(want, "razor-check", path)
		c, err := razor2.Dial(t.Context(), n.razor, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := c.Check(t.Context(), parts[0].E4); err != nil || a[0].Spam != reported {
			t.Errorf("reported %v: the signature of the reader is answered %v, %v", reported, a, err)
		}
		c.Close()
	}
}

func TestRazorWrongPassword(t *testing.T) {
	n := startNode(t, "")
	newHome(t, n, "ana")
	thief := &razorHome{t: t, dir: t.TempDir(), server: n.razor}
	thief.run(failed, "razor-admin", "-register", "-user=ana", "-pass=guessed")
	if err := os.WriteFile(filepath.Join(thief.dir, "identity"), []byte("pass = guessed\nuser = ana\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	path := writeMails(t)["plain"]
	thief.run(failed, "razor-report", "-f", path)
	thief.run(notSpam, "razor-check", path)
	// The same name and password again is no error to the client.
	again := &razorHome{t: t, dir: t.TempDir(), server: n.razor}
	again.run(0, "razor-admin", "-register", "-user=ana", "-pass=s3cret")
	// Without a name the server chooses one.
	nameless := &razorHome{t: t, dir: t.TempDir(), server: n.razor}
	nameless.run(0, "razor-admin", "-register")
	nameless.run(0, "razor-report", "-f", path)
	nameless.run(isSpam, "razor-check", path)
	// A closed account reports nothing.
	n.cli("user", "weigh", "ana", "0")
	again.run(0, "razor-report", "-f", writeMails(t)["CRLF"])
	again.run(notSpam, "razor-check", writeMails(t)["CRLF"])
}

// TestRazorFiftyClients: fifty users report and revoke at once. No mail is like another: a near copy of a reported mail
// is suspected spam, which razor-check takes for spam.
func TestRazorFiftyClients(t *testing.T) {
	n := startNode(t, "")
	nodetest.Program(t, "razor-check")
	dir := t.TempDir()
	var wg sync.WaitGroup
	limit := make(chan struct{}, 50)
	for i := range 50 {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			h := &razorHome{t: t, dir: filepath.Join(dir, fmt.Sprint(i)), server: n.razor}
			if err := os.Mkdir(h.dir, 0o700); err != nil {
				t.Error(err)
				return
			}
			path := filepath.Join(h.dir, "mail")
			if err := os.WriteFile(path, []byte(unlike(i)), 0o600); err != nil {
				t.Error(err)
				return
			}
			h.run(0, "razor-admin", "-register", fmt.Sprintf("-user=user%d", i), "-pass=s3cret")
			h.run(notSpam, "razor-check", path)
			h.run(0, "razor-report", "-f", path)
			h.run(isSpam, "razor-check", path)
			h.run(0, "razor-revoke", "-f", path)
			h.run(notSpam, "razor-check", path)
		})
	}
	wg.Wait()
}

// TestGarbage floods both doors with noise for some time (20 seconds with
// BULKHEAD_FULL=1); the node must still serve afterwards.
func TestGarbage(t *testing.T) {
	n := startNode(t, "")
	length := 5 * time.Second
	if os.Getenv("BULKHEAD_FULL") == "1" {
		length = 20 * time.Second
	}
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for i := range 4 {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		noise := func(max int) []byte {
			b := make([]byte, rnd.IntN(max))
			for j := range b {
				b[j] = byte(rnd.Uint32())
			}
			switch rnd.IntN(4) {
			case 0:
				b = append([]byte("-a=r&message=*\r\n"), b...)
			case 1:
				b = append([]byte("Op: report\nThread: 1\nPV: 2.1\nOp-Digest: "), b...)
			case 2:
				b = []byte(strings.Repeat("-a=c&e=4&s=x\r\n", 1+len(b)/20))
			}
			return b
		}
		wg.Go(func() {
			for time.Now().Before(end) {
				address, network, max := n.razor, "tcp", 1<<18
				switch rnd.IntN(4) {
				case 0:
					address = n.pyzorHelper
				case 1:
					address, network, max = n.pyzor, "udp", 9000
				}
				conn, err := net.Dial(network, address)
				if err != nil {
					t.Errorf("%s %s: %v", network, address, err)
					return
				}
				conn.SetDeadline(time.Now().Add(time.Second))
				conn.Write(noise(max)) // the node may hang up at any time
				conn.Close()
			}
		})
	}
	wg.Wait()
	// Requests that wait in the kernel still arrive, more than the door accepts at once.
	nodetest.Await(t, "the Razor door greets", func() bool {
		conn, err := net.Dial("tcp", n.razor)
		if err != nil {
			return false
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second))
		k, err := conn.Read(make([]byte, 1))
		return k == 1 && err == nil
	})
	// They read the noise to its end, or until its time is over. The clients below wait 15 seconds at most.
	nodetest.Await(t, "the doors have no connection", n.idle)
	h := newHome(t, n, "ana")
	path := writeMails(t)["plain"]
	h.run(0, "razor-report", "-f", path)
	h.run(isSpam, "razor-check", path)
	newPyzor(t, n).run(0, mails["plain"], "check")
}

// TestReportReachesOtherSchemes: what is reported through Razor is recognised by
// Pyzor clients and by the API.
func TestReportReachesOtherSchemes(t *testing.T) {
	n := startNode(t, "")
	h := newHome(t, n, "ana")
	p := newPyzor(t, n)
	for kind, path := range writeMails(t) {
		p.run(1, mails[kind], "check")
		h.run(0, "razor-report", "-f", path)
		p.run(0, mails[kind], "check")
	}
}

// TestRazorNeverLists: the signature of nothing stays unlisted whoever reports it.
func TestRazorNeverLists(t *testing.T) {
	n := startNode(t, "")
	h := newHome(t, n, "ana")
	path := filepath.Join(t.TempDir(), "mail")
	mail := "From: a@sender.example\nContent-Type: text/html\n\n<html><body><img src=\"x.gif\"></body></html>\n"
	if err := os.WriteFile(path, []byte(mail), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(0, "razor-report", "-f", path)
	h.run(notSpam, "razor-check", path)
	c, err := razor2.Dial(t.Context(), n.razor, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, sig := range signature.NeverList() {
		if sig.Scheme() != bulkhead.RazorE4 {
			continue
		}
		if a, err := c.Check(t.Context(), sig); err != nil || a[0].Spam {
			t.Errorf("the signature of nothing: %+v, %v", a, err)
		}
	}
}

//go:build interop

package razorpyzor

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// A node is a running bulkhead.
type node struct {
	t                                            *testing.T
	dir                                          string
	razor, pyzor, razorHelper, pyzorHelper, http string
	process                                      *nodetest.Process
}

// startNode runs a node with the doors for Razor and Pyzor, and the API for the
// command line, until the test ends. More is added to its configuration.
func startNode(t *testing.T, settings string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	for _, a := range []*string{&n.razor, &n.pyzor, &n.razorHelper, &n.pyzorHelper, &n.http} {
		*a = nodetest.Address(t)
	}
	config := fmt.Sprintf("[listen]\nrazor2 = %q\npyzor = %q\nrazor_helper = %q\npyzor_helper = %q\nhttp = %q\n%s\n",
		n.razor, n.pyzor, n.razorHelper, n.pyzorHelper, n.http, settings)
	if err := os.WriteFile(filepath.Join(n.dir, "bulkhead.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start()
	return n
}

func (n *node) start() {
	n.t.Helper()
	n.process = nodetest.Run(n.t, n.dir, nodetest.Binary(n.t), "serve", "--config", filepath.Join(n.dir, "bulkhead.toml"),
		"--data", filepath.Join(n.dir, "data"))
	for _, a := range []string{n.razor, n.razorHelper, n.pyzorHelper, n.http} {
		nodetest.AwaitTCP(n.t, a)
	}
}

// cli runs a subcommand of the program as administrator and returns what it
// prints.
func (n *node) cli(args ...string) string {
	n.t.Helper()
	args = append(args, "--server", "http://"+n.http)
	if args[0] == "user" {
		args = append(args, "--data", filepath.Join(n.dir, "data"))
	}
	return nodetest.Output(n.t, "", nodetest.Binary(n.t), args...)
}

// idle reports whether no door for mail programs has an open connection.
func (n *node) idle() bool {
	n.t.Helper()
	resp, err := http.Get("http://" + n.http + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, door := range []string{"razor2", "razor_helper", "pyzor_helper"} {
		_, rest, found := strings.Cut(string(text), `bulkhead_door_connections{door="`+door+`"} `)
		if !found {
			n.t.Fatalf("no connections of %s among the metrics:\n%s", door, text)
		}
		if !strings.HasPrefix(rest, "0\n") {
			return false
		}
	}
	return true
}

// mails are of the kinds that the clients cut up and decode in different ways.
var mails = map[string]string{
	"plain": "From: Ana <ana@sender.example>\nTo: bob@rcpt.example\nSubject: lamps\nMessage-ID: <1@sender.example>\n\n" +
		"Dear reader,\n\nour lamp shop round the corner has lamps of all sizes,\nfrom the small lamp for the desk to the " +
		"tall one for the hall.\nCome and see them at http://www.cheap-lamps.example/all today.\n\nThe lamp people\n",
	"base64": "From: a@sender.example\nSubject: coins\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n" +
		"Content-Transfer-Encoding: base64\n\n" +
		"QSBjb2xsZWN0b3Igb2YgY29pbnMgb2ZmZXJzIGEgaGFuZGZ1bCBvZiB0aGVtIGNoZWFwbHkuCldy\n" +
		"aXRlIGF0IG9uY2UsIG9yIHNlZSB0aGVtIGF0IGh0dHA6Ly9jb2lucy5leGFtcGxlLm5ldC9vZmZl\n" +
		"ciBub3cuCkFsbCBvZiB0aGVtIGFyZSBvbGQsIGFuZCBzb21lIG9mIHRoZW0gYXJlIHJlYWwuCg==\n",
	"quoted-printable HTML": "From: a@sender.example\nSubject: boats\nMIME-Version: 1.0\n" +
		"Content-Type: text/html; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\n" +
		"<html><body><p>A boat of your own, caf=E9 and all, is cheaper than you =\n" +
		"think.</p><p>See <a href=3D\"http://boats.example.org/?x=3D1\">our boats</a> before the =\nsummer is over.</p>\n" +
		"<p>Every boat comes with two oars and a bucket.</p></body></html>\n",
	"multipart": "From: a@sender.example\nSubject: tea\nMIME-Version: 1.0\nContent-Type: multipart/alternative;\n" +
		" boundary=\"=_tea\"\n\nThis is a message of several parts.\n--=_tea\nContent-Type: text/plain\n\n" +
		"Tea from the hills, picked by hand and dried in the sun.\nWe send it to your door in a tin.\n" +
		"http://tea.example/order\n--=_tea\nContent-Type: text/html\n\n<p>Tea from the hills, <b>picked by hand</b> and " +
		"dried in the sun.\n<p>We send it to <a href=\"http://tea.example/order\">your door</a> in a tin of tin.\n" +
		"--=_tea--\n",
	"nested": "From: a@sender.example\nSubject: maps\nMIME-Version: 1.0\n" +
		"Content-Type: multipart/mixed; boundary=outer\n\n--outer\nContent-Type: multipart/alternative; boundary=inner\n\n" +
		"--inner\nContent-Type: text/plain\n\n" +
		"Old maps of new towns and new maps of old towns.\nWe print them on paper that lasts longer than the towns.\n" +
		"--inner\nContent-Type: text/html\n\n<p>Old maps of new towns and new maps of old towns.<p>We print them on " +
		"<i>paper</i> that lasts longer than the towns.\n--inner--\n--outer\nContent-Type: image/gif; name=x.gif\n" +
		"Content-Transfer-Encoding: base64\n\nR0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7\n--outer--\n",
	"eight bit": "From: a@sender.example\nSubject: bread\nContent-Type: text/plain; charset=iso-8859-1\n" +
		"Content-Transfer-Encoding: 8bit\n\nDas Br\xf6tchen ist fertig, und der Kaffee dazu auch.\n" +
		"Wer zuerst kommt, bekommt das gr\xf6\xdfte St\xfcck davon.\n",
	"CRLF": "From: a@sender.example\r\nSubject: shoes\r\n\r\nA pair of shoes that fits both of your feet.\r\n" +
		"The left one is for the left foot, the right one for the other.\r\n",
}

// unlike returns a mail that has no word in common with the mail of another number.
func unlike(number int) string {
	rng := rand.New(rand.NewPCG(uint64(number), 1))
	word := func() string {
		b := make([]byte, 6+rng.IntN(6))
		for i := range b {
			b[i] = byte('a' + rng.IntN(26))
		}
		return string(b)
	}
	text := "From: ana@sender.example\nSubject: " + word() + "\n\n"
	for i := range 40 {
		if text += word() + " "; i%8 == 7 {
			text += "\n"
		}
	}
	return text + "http://www." + word() + ".example/all\n"
}

// writeMails puts the mails into files and returns their paths by kind.
func writeMails(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	paths := make(map[string]string)
	for kind, mail := range mails {
		path := filepath.Join(dir, strings.ReplaceAll(kind, " ", "-")+".eml")
		if err := os.WriteFile(path, []byte(mail), 0o600); err != nil {
			t.Fatal(err)
		}
		paths[kind] = path
	}
	return paths
}

// passwd sets the secret of an account for a protocol.
func (n *node) passwd(name, protocol, secret string) {
	n.t.Helper()
	nodetest.Output(n.t, secret+"\n", nodetest.Binary(n.t), "user", "passwd", name, "--protocol", protocol,
		"--server", "http://"+n.http, "--data", filepath.Join(n.dir, "data"))
}

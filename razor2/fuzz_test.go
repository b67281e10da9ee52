package razor2

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

func FuzzValues(f *testing.F) {
	f.Add("a=c&e=4&ep4=7542-10&s=7p6JNvfDEfoYAybuYapBiCjFEC0A")
	f.Add("res=1&user=ana%40example.org&pass=p%26%3D%25%20w+d")
	f.Add("a=b=c&&=&%zz=%4&a")
	f.Fuzz(func(t *testing.T, line string) {
		v := ParseValues(line)
		again := ParseValues(v.String())
		if len(again) != len(v) {
			t.Fatalf("%q: %d pairs, printed and parsed %d", line, len(v), len(again))
		}
		for i := range v {
			if v[i] != again[i] {
				t.Errorf("%q: pair %v, printed and parsed %v", line, v[i], again[i])
			}
		}
		if text := v.String(); strings.ContainsAny(text, "\r\n \x00?*") {
			t.Errorf("%q printed as %q, which a client would misread", line, text)
		}
	})
}

// FuzzSession sends bytes of any kind as one connection, logged in or not, and checks that clients
// can read every answer.
func FuzzSession(f *testing.F) {
	f.Add([]byte("a=c&e=4&ep4=7542-10&s=7p6JNvfDEfoYAybuYapBiCjFEC0A\r\na=q\r\n"), false)
	f.Add([]byte("-a=c&e=8&s=OK-8mIdLyA0A\r\na=c&e=8&s=OK-8mIdLyA0A\r\n.\r\n"), false)
	f.Add([]byte("-a=r&message=*\r\nFrom: x\n\r\nX-Razor2-Agent: y\n\nhello there, this is the text of a mail\n\r\n.\r\n"),
		true)
	f.Add([]byte("a=reg&user=x\r\na=ai&user=ana\r\na=auth&aresp=y\r\na=g&pm=state\r\na=g&pm=csl\r\n"), false)
	f.Add([]byte("-a=revoke&e=4&s=7p6JNvfDEfoYAybuYapBiCjFEC0A\r\n.\r\n"), true)
	s := &Server{Clearinghouse: &prototest.House{}, Accounts: &book{secrets: map[string]string{"ana": "s3cret"}},
		Read: read}
	address := start(f, s)
	f.Fuzz(func(t *testing.T, input []byte, loggedIn bool) {
		c, err := Dial(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.conn.Close()
		if loggedIn {
			if err := c.Login(t.Context(), Credentials{"ana", "s3cret"}); err != nil {
				t.Fatal(err)
			}
		}
		c.conn.SetDeadline(time.Now().Add(30 * time.Second))
		go func() {
			c.conn.Write(input)
			c.conn.(*net.TCPConn).CloseWrite()
		}()
		answer, err := io.ReadAll(c.in)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("answer to %.200q: %v", input, err)
		}
		if err == nil && len(answer) > 0 && !bytes.HasSuffix(answer, []byte("\r\n")) {
			t.Errorf("answer to %.200q ends in %q", input, answer[max(0, len(answer)-20):])
		}
		if s.ConnStats().Panics.Load() > 0 {
			t.Fatalf("%.200q made the handler panic", input)
		}
	})
}

// TestGarbage floods the server with noise of many kinds and then asks it a
// question.
func TestGarbage(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}}
	address := start(t, s)
	noise := make([]byte, 1<<20)
	rand.Read(noise)
	for name, input := range map[string][]byte{
		"noise":             noise,
		"no line end":       bytes.Repeat([]byte("a"), 1<<20),
		"NULs":              make([]byte, 1<<16),
		"endless batch":     bytes.Repeat([]byte("-a=c&e=8&s=OK-8mIdLyA0A\r\n"), 10000),
		"endless message":   append([]byte("-a=r&message=*\r\n"), bytes.Repeat([]byte("text\n"), 1<<18)...),
		"unfinished":        []byte("-a=r&message=*\r\ntext\n"),
		"TLS":               {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"HTTP":              []byte("POST / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"many lines":        bytes.Repeat([]byte("a=c\r\n"), 50000),
		"ampersands":        append(bytes.Repeat([]byte("&="), 4000), '\n'),
		"never reads":       bytes.Repeat([]byte("a=g&pm=state\r\n"), 100000),
		"half a line":       []byte("a=c&e"),
		"dots":              bytes.Repeat([]byte(".\r\n"), 1000),
		"message then dots": []byte("-a=r&message=*\r\n.\r\n.\r\n.\r\n"),
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		conn.SetDeadline(time.Now().Add(3 * time.Second))
		conn.Write(input) // the server may hang up at any time
		conn.Close()
	}
	c, err := Dial(context.Background(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Check(t.Context(), mustSigs(t, "razor/e8", "OK-8mIdLyA0A")...); err != nil {
		t.Errorf("after the noise: %v", err)
	}
	if got := s.ConnStats().Panics.Load(); got > 0 {
		t.Errorf("%d panics", got)
	}
}

// BenchmarkCheck measures one check over a kept connection, generator included.
func BenchmarkCheck(b *testing.B) {
	address := start(b, &Server{Clearinghouse: &prototest.House{}})
	sigs := mustSigs(b, "razor/e8", "OK-8mIdLyA0A")
	b.RunParallel(func(pb *testing.PB) {
		c, err := Dial(context.Background(), address, nil)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		for pb.Next() {
			if _, err := c.Check(context.Background(), sigs...); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

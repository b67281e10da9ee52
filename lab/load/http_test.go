package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestHTTPClient sends requests whose answers are framed in both ways over one
// connection, and counts what arrived.
func TestHTTPClient(t *testing.T) {
	var bodies []string
	conns := make(map[string]bool)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		conns[r.RemoteAddr] = true
		if len(bodies)%5 == 0 {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		io.WriteString(w, strings.Repeat("x", len(bodies)*1000)) // chunked once it is long
	}))
	defer srv.Close()
	i := 0
	c, err := NewHTTPClient(srv.Listener.Addr().String(), 5*time.Second, func() []byte {
		i++
		return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n%02d", i)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for n := 1; n <= 20; n++ {
		if err := c.Do(); (err != nil) != (n%5 == 0) {
			t.Errorf("request %d: %v", n, err)
		}
	}
	if len(bodies) != 20 || bodies[19] != "20" || len(conns) != 1 {
		t.Errorf("server saw %q over %d connections, want 20 requests over one", bodies, len(conns))
	}
}

// TestHTTPConnect sends requests of several signatures over both protocols, and checks what arrives.
func TestHTTPConnect(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, n := range []int{1, 21} {
			var asked [][]string
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Signatures []string }
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/check" || (r.ProtoMajor == 2) != http2 {
					t.Errorf("%s %s with %v", r.Proto, r.URL, r.Header)
				}
				asked = append(asked, body.Signatures)
			}))
			srv.EnableHTTP2 = true
			if http2 {
				srv.StartTLS()
			} else {
				srv.Start()
			}
			o := HTTP{Address: srv.Listener.Addr().String(), Op: "check", Token: "secret", Signatures: n, HTTP2: http2}
			c, err := o.Connect(0)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := c.Do(); err != nil {
					t.Error(err)
				}
			}
			c.Close()
			srv.Close()
			known := make(map[string]bool)
			for _, signatures := range asked {
				if len(signatures) != n {
					t.Errorf("%d signatures, want %d", len(signatures), n)
				}
				for _, s := range signatures {
					if known[s] || len(s) != len("pyzor/digest:")+len(place) {
						t.Errorf("signature %q, want new ones", s)
					}
					known[s] = true
				}
			}
			if len(asked) != 3 {
				t.Errorf("%d requests, want 3", len(asked))
			}
		}
	}
}

// FuzzReadAnswer checks that no bytes make the reader panic.
func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 2x0\r\nContent-Length: -1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var body bytes.Buffer
		status, err := readAnswer(bufio.NewReaderSize(bytes.NewReader(data), 64), &body)
		if err == nil && body.Len() > len(data) {
			t.Errorf("status %d with a body of %d bytes out of %d", status, body.Len(), len(data))
		}
	})
}

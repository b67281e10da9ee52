package mta

import "testing"

func TestPostfixRuns(t *testing.T) {
	s := startSink(t)
	p := startPostfix(t, s.addr, "")
	c := dialSMTP(t, p.addr)
	if code, text := c.message(t, "ann@example.org", []string{"bob@example.com"}, "Subject: marker-1\n\nhello\n"); code != 250 {
		t.Fatal(code, text)
	}
	d := s.await(t, "marker-1")
	t.Logf("%+v", d)
}

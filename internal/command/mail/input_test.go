package mail

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// TestCount: a count is shown every hundred messages and erased before any other text is printed;
// if the output is not watched, nothing is printed.
func TestCount(t *testing.T) {
	var out bytes.Buffer
	c := &count{w: &out}
	c.end()
	for range 250 {
		c.next()
	}
	c.end()
	c.end()
	if want := "\r100 messages\r200 messages\r            \r"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	cmd := &cobra.Command{}
	out.Reset()
	cmd.SetErr(&out)
	c = newCount(cmd)
	for range 250 {
		c.next()
	}
	if c.end(); out.Len() > 0 {
		t.Errorf("into a file: %q", out.String())
	}
}

package abuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// maildir makes an empty Maildir.
func maildir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"new", "cur", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// in returns the names in a folder, sorted.
func in(t *testing.T, path string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// A ballot records the votes by their ids.
type ballot struct {
	votes map[string]string
	calls int
	err   error // error of the next calls
}

func (b *ballot) vote(_ context.Context, vote bulkhead.Vote, user, id string, raw []byte) error {
	if b.err != nil {
		return b.err
	}
	b.calls++
	b.votes[id] = fmt.Sprintf("%s %v %q", user, vote, raw)
	return nil
}

// TestClerk: each mail is voted on once, over restarts and after a crash between the vote and the
// move; mail of strangers is put aside; mail that the node cannot accept now stays.
func TestClerk(t *testing.T) {
	spam, ham := maildir(t), maildir(t)
	b := &ballot{votes: make(map[string]string)}
	clerk := func() *Clerk {
		return &Clerk{Boxes: []Box{{spam, bulkhead.Spam}, {ham, bulkhead.Ham}}, Options: site, Vote: b.vote, MaxBytes: 10_000}
	}
	put(t, filepath.Join(spam, "new", "1.a"), attach(byAnn, "message/rfc822", letter, "Subject: two\r\n\r\n2"))
	put(t, filepath.Join(spam, "cur", "2.a:2,F"), attach(byAnn, "message/rfc822", "Subject: three\r\n\r\n3"))
	put(t, filepath.Join(spam, "new", "3.a"), attach("", "message/rfc822", letter))
	put(t, filepath.Join(spam, "new", "4.a"), attach(byAnn, "message/rfc822", letter+strings.Repeat("x", 10_000)))
	put(t, filepath.Join(spam, "new", ".5"), "hidden")
	put(t, filepath.Join(spam, "tmp", "6"), attach(byAnn, "message/rfc822", "Subject: unfinished\r\n\r\n"))
	put(t, filepath.Join(ham, "new", "7.a"), attach(byAnn, "message/rfc822", "Subject: newsletter\r\n\r\nn"))
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, attach(byAnn, "message/rfc822", "Subject: elsewhere\r\n\r\n"))
	if err := os.Symlink(secret, filepath.Join(spam, "new", "8.a")); err != nil {
		t.Fatal(err)
	}

	b.err = errors.New("no node answers")
	if total, err := clerk().Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "no node answers") ||
		total.Mails != 0 {
		t.Errorf("without a node: %+v, %v", total, err)
	}
	if got := in(t, filepath.Join(spam, "new")); !slices.Contains(got, "1.a") {
		t.Errorf("without a node mail is gone: %q", got)
	}

	b.err = nil
	total, err := clerk().Pass(t.Context())
	if err != nil || total.Mails != 3 || total.Messages != 4 {
		t.Errorf("%+v, %v", total, err)
	}
	if len(b.votes) != 4 || b.calls != 4 {
		t.Errorf("%d calls for %d votes: %q", b.calls, len(b.votes), b.votes)
	}
	var cast []string
	for _, v := range b.votes {
		cast = append(cast, v)
	}
	slices.Sort(cast)
	if want := fmt.Sprintf("ann@example.com %v %q", bulkhead.Ham,
		"Subject: newsletter\r\n\r\nn"); !slices.Contains(cast, want) {
		t.Errorf("votes %q, want %s among them", cast, want)
	}
	if got := in(t, filepath.Join(spam, Reported, "cur")); !slices.Equal(got, []string{"1.a:2,S", "2.a:2,S"}) {
		t.Errorf("reported: %q", got)
	}
	if got := in(t, filepath.Join(spam, Refused, "cur")); !slices.Equal(got, []string{"3.a:2,S", "4.a:2,S", "8.a:2,S"}) {
		t.Errorf("refused: %q", got)
	}
	if got := in(t, filepath.Join(spam, "new")); !slices.Equal(got, []string{".5"}) {
		t.Errorf("left: %q", got)
	}
	if again, err := clerk().Pass(t.Context()); err != nil || again != (Totals{}) || b.calls != 4 {
		t.Errorf("again: %+v, %v, %d calls", again, err, b.calls)
	}

	// Stopped between the vote and the move: the mail is back, and its vote has the same
	// identity.
	if err := os.Rename(filepath.Join(spam, Reported, "cur", "1.a:2,S"), filepath.Join(spam, "new", "1.a")); err != nil {
		t.Fatal(err)
	}
	if _, err := clerk().Pass(t.Context()); err != nil || b.calls != 6 || len(b.votes) != 4 {
		t.Errorf("after a crash: %v, %d calls, %d votes", err, b.calls, len(b.votes))
	}

	// A mail of the same name as one that was handled does not replace it.
	put(t, filepath.Join(spam, "new", "1.a"), attach(byAnn, "message/rfc822", "Subject: other\r\n\r\n"))
	b.err = fmt.Errorf("%w: nothing to vote on", ErrRefused)
	if total, err := clerk().Pass(t.Context()); err != nil || total.Refused != 1 {
		t.Errorf("refused by the node: %+v, %v", total, err)
	}
	b.err = nil
	put(t, filepath.Join(spam, "new", "1.a"), attach(byAnn, "message/rfc822", "Subject: third\r\n\r\n"))
	if _, err := clerk().Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := in(t, filepath.Join(spam, Reported, "cur")); !slices.Equal(got,
		[]string{"1.a.1:2,S", "1.a:2,S", "2.a:2,S"}) {
		t.Errorf("reported: %q", got)
	}

	late := clerk()
	late.Now = func() time.Time { return time.Now().Add(DefaultKeep + time.Hour) }
	if total, err := late.Pass(t.Context()); err != nil || total.Removed != 8 {
		t.Errorf("a month later: %+v, %v", total, err)
	}
	if got := in(t, filepath.Join(spam, Reported, "cur")); len(got) != 0 {
		t.Errorf("kept: %q", got)
	}
}

// TestClerkRefusedMessage: a message that the node refuses loses no vote on the others in the mail.
func TestClerkRefusedMessage(t *testing.T) {
	box := maildir(t)
	put(t, filepath.Join(box, "new", "1"), attach(byAnn, "message/rfc822", "Subject: empty\r\n\r\n", letter,
		"Subject: three\r\n\r\n3"))
	var votes []string
	c := &Clerk{Boxes: []Box{{box, bulkhead.Spam}}, Options: site,
		Vote: func(_ context.Context, _ bulkhead.Vote, _, id string, raw []byte) error {
			if strings.Contains(string(raw), "empty") {
				return fmt.Errorf("%w: no text", ErrRefused)
			}
			votes = append(votes, id)
			return nil
		}}
	total, err := c.Pass(t.Context())
	if want := (Totals{Mails: 1, Messages: 2, Lost: 1}); err != nil || total != want {
		t.Errorf("%+v, %v, want %+v", total, err, want)
	}
	if len(votes) != 2 || votes[0] == votes[1] {
		t.Errorf("votes %q", votes)
	}
	if got := in(t, filepath.Join(box, Reported, "cur")); !slices.Equal(got, []string{"1:2,S"}) {
		t.Errorf("reported: %q", got)
	}
}

// TestClerkBoxes: a box that is no Maildir is an error, and the others are worked through;
// a context that ends stops the work.
func TestClerkBoxes(t *testing.T) {
	good := maildir(t)
	b := &ballot{votes: make(map[string]string)}
	c := &Clerk{Boxes: []Box{{t.TempDir(), bulkhead.Spam}, {filepath.Join(good, "gone"), bulkhead.Spam},
		{good, bulkhead.Spam}}, Options: site, Vote: b.vote}
	put(t, filepath.Join(good, "new", "1"), attach(byAnn, "message/rfc822", letter))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Pass(ctx); !errors.Is(err, context.Canceled) || b.calls != 0 {
		t.Errorf("ended: %v, %d votes", err, b.calls)
	}
	if total, err := c.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "no Maildir") || total.Mails != 1 {
		t.Errorf("%+v, %v", total, err)
	}
}

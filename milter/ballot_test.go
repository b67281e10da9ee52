package milter

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// unpack splits a mail into messages at lines of equals signs.
func unpack(raw []byte) ([][]byte, error) {
	if bytes.Contains(raw, []byte("a panic")) {
		panic("oh")
	}
	parts := bytes.Split(raw, []byte("\r\n====\r\n"))
	if len(parts) < 2 {
		return nil, errors.New("no message attached")
	}
	return parts[1:], nil
}

var ballots = []Ballot{{"spam@example.com", bulkhead.Spam}, {"Ham@Example.com", bulkhead.Ham}}

// ballotMailOf returns a mail that contains messages.
func ballotMailOf(bodies ...string) string {
	all := "From: ann@example.com\nTo: spam@example.com\nSubject: see below\n\nSee below."
	for _, b := range bodies {
		all += "\n====\nSubject: chairs\n\n" + b
	}
	return all + "\n"
}

// TestBallots: mail to a ballot counts as votes of the logged-in sender, whether such senders are
// exempt or not. Without a log-in it is not a vote.
func TestBallots(t *testing.T) {
	two := ballotMailOf(prose(1), prose(2))
	large := ballotMailOf(strings.Repeat("word ", 1000))
	for _, version := range versions {
		for _, exempt := range []bool{true, false} {
			house := &prototest.House{}
			s := &Server{Clearinghouse: house, Ballots: ballots, Unpack: unpack, ExemptLogins: exempt, MaxMessage: 4000}
			m := serve(t, s)(version.version, version.steps)
			m.connect("198.51.100.7")
			for _, tt := range []struct {
				name, login string
				to          []string
				mail        string
				code        byte
				reply       string
				votes       []bulkhead.Vote // votes of the user ann
				sightings   int
			}{
				{"spam", "Ann", []string{"SPAM@example.COM"}, two, replyDiscard, "", []bulkhead.Vote{bulkhead.Spam, bulkhead.Spam},
					0},
				{"ham", "ann", []string{"ham@example.com"}, ballotMailOf(prose(3)), replyDiscard, "", []bulkhead.Vote{bulkhead.Ham},
					0},
				{"and somebody else", "ann", []string{"bob@example.com", "spam@example.com"}, two, replyAccept, "",
					[]bulkhead.Vote{bulkhead.Spam, bulkhead.Spam}, 0},
				{"both", "ann", []string{"spam@example.com", "ham@example.com"}, two, replyCode, "different things", nil, 0},
				{"nothing attached", "ann", []string{"spam@example.com"}, ballotMailOf(), replyCode,
					"550 5.6.0 nothing was reported: milter: no vote: no message attached", nil, 0},
				{"short", "ann", []string{"spam@example.com"}, ballotMailOf("hi"), replyCode, "too short", nil, 0},
				{"large", "ann", []string{"spam@example.com"}, large, replyCode, "larger than 4000 bytes", nil, 0},
				{"of a stranger", "", []string{"spam@example.com"}, two, replyAccept, "", nil, 1},
				{"another domain", "", []string{"spam@example.net"}, two, replyAccept, "", nil, 1},
				{"and a third one", "", []string{"spam@example.org"}, two, replyAccept, "", nil, 1},
			} {
				before := len(house.Reports())
				m.macro(cmdMail, "{auth_authen}", tt.login)
				r := m.message("ann@example.com", tt.to, tt.mail)
				s.Flush()
				var votes []bulkhead.Vote
				sightings := 0
				for _, report := range house.Reports()[before:] {
					if report.Vote == bulkhead.Sighting {
						sightings++
						continue
					}
					votes = append(votes, report.Vote)
					if report.Reporter != (bulkhead.Reporter{User: "ann"}) || report.Count != 1 || report.ID == "" ||
						!bulkhead.Identifies(report.Signatures) {
						t.Errorf("%s: the vote %+v", tt.name, report)
					}
				}
				if r.code != tt.code || !strings.Contains(r.text, tt.reply) || !slices.Equal(votes, tt.votes) ||
					sightings != tt.sightings || (r.inserted[HeaderClass] != "") != (tt.sightings > 0) {
					t.Errorf("%s, %s, exempt %v: reply %q %q, headers %q, votes %v, %d sightings; want %q %q, %v, %d",
						version.name, tt.name, exempt, r.code, r.text, r.inserted, votes, sightings, tt.code,
						tt.reply, tt.votes, tt.sightings)
				}
			}
			if got := [3]int64{s.Stats.Ballots.Votes.Load(), s.Stats.Ballots.Refused.Load(),
				s.Stats.Ballots.Unauthenticated.Load()}; got != [3]int64{3, 4, 1} {
				t.Errorf("counted %v, want 3 taken, 4 refused, 1 of a stranger", got)
			}
			m.macro(cmdMail, "{auth_authen}", "ann")
			before := len(house.Reports())
			r := m.message("ann@example.com", []string{"bob@example.com"}, two)
			s.Flush()
			if got := len(house.Reports()) - before; r.code != replyAccept || (got == 0) != exempt {
				t.Errorf("other mail of a user, exempt %v: %q, %d reports", exempt, r.code, got)
			}
		}
	}
}

// TestBallotAgain: votes that the node cannot take now are refused temporarily. If the mail is sent
// again, it has the same vote IDs, so each vote counts once.
func TestBallotAgain(t *testing.T) {
	house := &prototest.House{}
	memory := door.NewMemory(1 << 20)
	s := &Server{Clearinghouse: house, Ballots: ballots, Unpack: unpack, ExemptLogins: true, Memory: memory}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	letters := []string{prose(1), prose(2)}
	send := func(code byte, reply string) {
		t.Helper()
		m.macro(cmdMail, "{auth_authen}", "ann")
		if r := m.message("ann@example.com", []string{"spam@example.com"}, ballotMailOf(letters...)); r.code != code ||
			!strings.HasPrefix(r.text, reply) {
			t.Errorf("%q %q, want %q %q", r.code, r.text, code, reply)
		}
	}
	house.Fail(bulkhead.ErrReadOnly)
	send(replyCode, "451 4.3.0")
	house.Fail(bulkhead.ErrForbidden)
	send(replyCode, "550 5.6.0")
	house.Fail(nil)
	for range 2 {
		send(replyDiscard, "")
	}
	var ids []string
	for _, r := range house.Reports() {
		ids = append(ids, r.ID)
	}
	if len(ids) < 2 || ids[0] == ids[1] || len(ids) == 4 && (ids[0] != ids[2] || ids[1] != ids[3]) {
		t.Errorf("ids %q", ids)
	}
	letters[0] = "a panic"
	send(replyCode, "451 4.3.0")
	if s.Stats.Faults.Load() != 2 {
		t.Errorf("%d faults, want 2", s.Stats.Faults.Load())
	}
}

// TestBallotAddresses: an invalid address is refused, and so is a server that cannot unpack.
func TestBallotAddresses(t *testing.T) {
	for _, bad := range []string{"", "spam", "@example.com", "spam@", "a b@example.com"} {
		if err := (&Server{Clearinghouse: &prototest.House{}, Unpack: unpack,
			Ballots: []Ballot{{bad, bulkhead.Spam}}}).Prepare(); err == nil {
			t.Errorf("ballot %q was taken", bad)
		}
	}
	if err := (&Server{Clearinghouse: &prototest.House{}, Ballots: ballots}).Prepare(); err == nil {
		t.Error("ballots without Unpack were taken")
	}
}

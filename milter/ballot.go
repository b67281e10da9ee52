package milter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A Ballot is an address to which users send messages in order to vote on them.
type Ballot struct {
	Address string        // "local@domain"
	Vote    bulkhead.Vote // on each message that they send
}

// A ballotBox is a Ballot that can be compared with recipients.
type ballotBox struct {
	address traps
	vote    bulkhead.Vote
}

func newBallotBoxes(all []Ballot) ([]ballotBox, error) {
	var boxes []ballotBox
	for _, b := range all {
		address, err := newTraps([]string{b.Address})
		if err != nil || strings.HasPrefix(b.Address, "@") {
			return nil, fmt.Errorf("milter: ballot %.80q is not local@domain", b.Address)
		}
		boxes = append(boxes, ballotBox{address, b.Vote})
	}
	return boxes, nil
}

// A ballotMail is the set of recipients of a message that are ballots.
type ballotMail struct {
	recipients int
	vote       bulkhead.Vote
	torn       bool // two ballots with different votes
}

// noteBallot notes whether a recipient is a ballot.
func (k *session) noteBallot(recipient string) {
	for _, box := range k.server.setup.ballots {
		if !box.address.has(recipient) {
			continue
		}
		b := &k.msg.ballot
		b.torn = b.torn || b.recipients > 0 && b.vote != box.vote
		b.recipients++
		b.vote = box.vote
		return
	}
}

// votes reports whether the message is a vote: mail to a ballot from a user who has logged in.
func (k *session) votes() bool { return k.msg.ballot.recipients > 0 && k.msg.login != "" }

// errNoVote is wrapped by errors that the sender of a vote should learn of: the vote would be
// refused again.
var errNoVote = errors.New("milter: no vote")

// endVote counts the votes in a message from its sender, and appends the reply.
func (k *session) endVote(ctx context.Context) {
	s := k.server
	n, err := k.cast(ctx)
	switch {
	case err == nil:
		s.Stats.Ballots.Votes.Add(1)
		s.Log.Info("votes by mail", "queue_id", k.msg.queueID, "user", k.msg.login, "vote", k.msg.ballot.vote, "messages", n)
		if k.msg.ballot.recipients == len(k.msg.recipients) {
			k.out = append(k.out, packetDiscard...)
			return
		}
		k.cleanForged()
		k.accept()
	case errors.Is(err, errNoVote), errors.Is(err, bulkhead.ErrMalformed), errors.Is(err, bulkhead.ErrForbidden):
		s.Stats.Ballots.Refused.Add(1)
		s.Log.Warn("no vote by mail", "queue_id", k.msg.queueID, "user", k.msg.login, "err", err)
		k.out = append(k.out, smtpReply("550 5.6.0", "nothing was reported: "+err.Error())...)
	default:
		s.Stats.Faults.Add(1)
		s.Log.Error("no vote by mail, for now", "queue_id", k.msg.queueID, "user", k.msg.login, "err", err)
		k.out = append(k.out, smtpReply("451 4.3.0", "nothing was reported: try again later")...)
	}
}

// cast votes on the messages in a mail to a ballot, and returns the number of votes taken. If the
// mail is sent again, its votes count once.
func (k *session) cast(ctx context.Context) (n int, err error) {
	s := k.server
	switch {
	case k.msg.crowded != nil:
		return 0, k.msg.crowded
	case k.msg.oversize:
		return 0, fmt.Errorf("%w: the mail is larger than %d bytes, or has too many recipients", errNoVote, s.MaxMessage)
	case k.msg.ballot.torn:
		return 0, fmt.Errorf("%w: the mail goes to addresses that say different things", errNoVote)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout-k.msg.waited)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("panic while taking votes", "panic", p, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	raw := k.msg.raw.Bytes()
	messages, err := s.Unpack(raw)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoVote, err)
	}
	largest := 0
	for _, m := range messages {
		largest = max(largest, len(m))
	}
	if err := k.held.Take(ctx, int64(door.Cost*largest), s.Timeout/4); err != nil {
		return 0, err
	}
	sum := sha256.Sum256(raw)
	for i, m := range messages {
		if err := s.voteOn(ctx, m, k.msg.ballot.vote, k.msg.login,
			fmt.Sprintf("mail-%s-%d", hex.EncodeToString(sum[:16]), i)); err != nil {
			return i, err
		}
	}
	return len(messages), nil
}

// voteOn votes on a message on behalf of a user.
func (s *Server) voteOn(ctx context.Context, raw []byte, vote bulkhead.Vote, user, id string) error {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return err
	}
	opts := s.Signatures
	opts.AboveFloor, opts.Skip = true, nil // a message that users vote on is found by every scheme
	sigs, err := signature.Compute(mail.WithMessage(ctx, m), m.Raw, opts)
	if err != nil {
		return err
	}
	var hosts []string
	if s.AuthResults != nil {
		hosts = s.AuthResults()
	}
	source := m.SourceBy(hosts, "")
	if source.Features, err = s.features(ctx, m); err != nil {
		return err
	}
	sigs = append(sigs, signature.Senders(source)...)
	if !bulkhead.Identifies(sigs) {
		return fmt.Errorf("%w: the message is too short to be distinguished from others", errNoVote)
	}
	reporter := s.Reporter
	reporter.User = strings.ToLower(user)
	return s.report(ctx, bulkhead.Report{Signatures: sigs, Vote: vote, Count: 1, Source: source, Reporter: reporter,
		ID: id})
}

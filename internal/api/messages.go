package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// Media types of request bodies.
const (
	mailType    = "message/rfc822"
	requestType = "application/json"
)

// decode reads a JSON body as parse does, and checks it against the schema of T.
func decode[T any](r *request, body []byte, maxBatch int) (items []T, batch bool, err error) {
	if items, batch, err = parse[T](body, maxBatch); err != nil {
		return nil, false, err
	}
	return items, batch, validateBody[T](r, body, batch)
}

// parse reads a JSON body: one object, or an array of objects. Unknown fields
// and anything after the value are errors.
func parse[T any](body []byte, maxBatch int) (items []T, batch bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if isArray(body) {
		batch = true
		items, err = parseBatch[T](dec, maxBatch)
	} else {
		items = make([]T, 1)
		err = dec.Decode(&items[0])
	}
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = errors.New("bytes after the end of the value")
		}
	}
	switch {
	case errors.Is(err, errBatch):
		return nil, false, err
	case err != nil:
		return nil, false, fmt.Errorf("%w: body: %s", bulkhead.ErrMalformed, jsonMistake(err))
	}
	return items, batch, nil
}

// errBatch is wrapped by errors for a batch of too few or too many messages.
var errBatch = fmt.Errorf("%w: batch", bulkhead.ErrMalformed)

// parseBatch reads an array of 1 to most objects. It reads them one by one: an empty object is two bytes long, and
// takes a hundred times as many.
func parseBatch[T any](dec *json.Decoder, most int) (items []T, err error) {
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		if len(items) == most {
			return nil, fmt.Errorf("%w of more than %d messages", errBatch, most)
		}
		var item T
		if err := dec.Decode(&item); err != nil {
			return nil, inside(err)
		}
		items = append(items, item)
	}
	if _, err := dec.Token(); err != nil {
		return nil, inside(err)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%w of 0 messages, want 1 to %d", errBatch, most)
	}
	return items, nil
}

// inside returns an error of reading a part of a value: the end of the text is not expected there.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// one reads a JSON body that holds one object.
func one[T any](r *request) (T, error) {
	var none T
	if t := r.mediaType(); t != requestType {
		return none, wrongType(t, requestType)
	}
	body, err := r.jsonBody()
	if err != nil {
		return none, err
	}
	if isArray(body) {
		return none, fmt.Errorf("%w: body is an array, want one object", bulkhead.ErrMalformed)
	}
	items, _, err := decode[T](r, body, 1)
	if err != nil {
		return none, err
	}
	return items[0], nil
}

// isArray reports whether a JSON text begins as an array.
func isArray(body []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) }

// jsonMistake returns what is wrong with a JSON text, without the types of this program.
func jsonMistake(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends inside a value"
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.As(err, &kind) && kind.Field != "":
		path := slices.DeleteFunc(strings.Split(kind.Field, "."), func(name string) bool {
			return name != "" && name[0] < 'a' // a struct that another one embeds
		})
		return fmt.Sprintf("%s: unexpected %s", strings.Join(path, "."), kind.Value)
	case errors.As(err, &kind):
		return "want an object, not a " + kind.Value
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	return strings.TrimPrefix(text, bulkhead.ErrMalformed.Error()+": ")
}

// signatures checks the number and validity of the signatures of one message.
func (r *request) signatures(sigs []bulkhead.Signature) error {
	if len(sigs) == 0 || len(sigs) > r.set.MaxSignatures {
		return fmt.Errorf("%w: message with %d signatures, want 1 to %d", bulkhead.ErrMalformed, len(sigs),
			r.set.MaxSignatures)
	}
	return valid(sigs)
}

func valid(sigs []bulkhead.Signature) error {
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("%w: signature %d of %d is missing", bulkhead.ErrMalformed, i+1, len(sigs))
		}
	}
	return nil
}

// withSenders appends the signatures of a source to the signatures of its message, up to the limit. It appends
// none if there are such signatures: the plugins name the senders of a check, which knew the author's address.
func (s *Server) withSenders(r *request, sigs []bulkhead.Signature, source bulkhead.Source) []bulkhead.Signature {
	if slices.ContainsFunc(sigs, func(s bulkhead.Signature) bool {
		return s.Scheme() == bulkhead.Sender || s.Scheme() == bulkhead.Network
	}) {
		return sigs
	}
	all := slices.Clip(sigs)
	for _, sig := range s.opts.Senders(source) {
		if !slices.Contains(sigs, sig) && len(all) < r.set.MaxSignatures {
			all = append(all, sig)
		}
	}
	return all
}

// mail reads a body of type message/rfc822: its signatures and its sender's, and its source from
// the headers unless the query sets it.
func (s *Server) mail(r *request) ([]bulkhead.Signature, bulkhead.Source, error) {
	raw, err := r.body()
	if err != nil {
		return nil, bulkhead.Source{}, err
	}
	if len(raw) == 0 {
		return nil, bulkhead.Source{}, fmt.Errorf("%w: the body is empty", bulkhead.ErrMalformed)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	sigs, source, err := s.opts.Read(ctx, raw, r.query["dkim"])
	if err != nil {
		return nil, bulkhead.Source{}, err
	}
	if v := r.query.Get("sender"); v != "" {
		source.Sender = v
	}
	if v := r.query.Get("list_id"); v != "" {
		source.ListID = v
	}
	if v := r.query.Get("client"); v != "" {
		if source.Client, err = netip.ParseAddr(v); err != nil {
			return nil, bulkhead.Source{}, fmt.Errorf("%w: client %.60q is not an address", bulkhead.ErrMalformed, v)
		}
	}
	return s.withSenders(r, sigs, source), source, nil
}

// parseQuery returns the query parameters of an operation. It refuses those that the operation does not have.
func (r *request) parseQuery() (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: query: %v", bulkhead.ErrMalformed, err)
	}
	for name, values := range q {
		if !slices.ContainsFunc(r.params, func(p *huma.Param) bool { return p.In == "query" && p.Name == name }) {
			return nil, fmt.Errorf("%w: unknown query parameter %.40q", bulkhead.ErrMalformed, name)
		}
		if len(values) > 1 && name != "dkim" && name != "rcpt" {
			return nil, fmt.Errorf("%w: query parameter %q given %d times", bulkhead.ErrMalformed, name, len(values))
		}
	}
	return q, r.validateQuery(q)
}

// noQuery returns an error if there are query parameters. The operation has them for bodies of type [mailType] alone.
func (r *request) noQuery() error {
	for name := range r.query {
		return fmt.Errorf("%w: unknown query parameter %q beside a body of type %.60q", bulkhead.ErrMalformed, name,
			r.mediaType())
	}
	return nil
}

// number returns an integer parameter, or 0 if it is absent. [request.query] has validated it.
func number(q url.Values, name string) uint32 {
	n, _ := parseNumber(q, name)
	return n
}

func parseNumber(q url.Values, name string) (uint32, error) {
	v := q.Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: %s %.40q is not a number from 0 to 4294967295", bulkhead.ErrMalformed, name, v)
	}
	return uint32(n), nil
}

// wrongType returns the error for an unsupported media type of a body.
func wrongType(got string, want ...string) error {
	return newProblem(http.StatusUnsupportedMediaType,
		fmt.Sprintf("body of type %.60q, want %s", got, strings.Join(want, " or ")))
}

const noSignature = "the message has no signature that a vote could list: it has too little text to be " +
	"distinguished from others"

// at adds the index of the message in the batch to an error.
func at(err error, i int, batch bool) error {
	if !batch {
		return err
	}
	return fmt.Errorf("message %d of the batch: %w", i+1, err)
}

// batchProblem returns the problem of one message of a batch, nil for none. It logs internal errors
// of the node.
func (s *Server) batchProblem(err error) *client.Problem {
	if err == nil {
		return nil
	}
	p := problem(err)
	if p.Status == http.StatusInternalServerError {
		s.opts.Log.Error("request failed", "in", "batch", "err", err)
	}
	return p
}

func (s *Server) report(r *request) (any, error) { return s.vote(r) }

func (s *Server) revoke(r *request) (any, error) {
	r.unsaid = bulkhead.Revocation
	return s.vote(r)
}

func (s *Server) vote(r *request) (any, error) {
	switch t := r.mediaType(); t {
	case mailType:
		return s.voteMail(r)
	case requestType:
		return s.voteReady(r)
	default:
		return nil, wrongType(t, mailType, requestType)
	}
}

func (s *Server) voteMail(r *request) (any, error) {
	rep := bulkhead.Report{Reporter: r.who, ID: r.Header.Get("Idempotency-Key")}
	var err error
	if rep.Vote, err = r.parseVote(r.query.Get("vote")); err != nil {
		return nil, err
	}
	rep.Count, rep.Reporter.User = number(r.query, "count"), r.query.Get("user")
	if rep.Recipients, err = mailboxes(rep.Vote, r.query["rcpt"]); err != nil {
		return nil, err
	}
	if rep.Signatures, rep.Source, err = s.mail(r); err != nil {
		return nil, err
	}
	if len(rep.Signatures) == 0 || rep.Vote == bulkhead.Spam && !bulkhead.Identifies(rep.Signatures) {
		return nil, newProblem(http.StatusUnprocessableEntity,
			noSignature+". Nothing was counted")
	}
	if err := checkID(rep.ID); err != nil {
		return nil, err
	}
	return s.tell(r, rep)
}

func (s *Server) tell(r *request, rep bulkhead.Report) (*client.Receipt, error) {
	ctx, cancel := r.voteContext()
	defer cancel()
	got, err := s.house.Report(ctx, rep)
	if err != nil {
		return nil, err
	}
	s.metrics.vote(rep.Vote)
	return client.NewReceipt(got, len(rep.Signatures)), nil
}

// A reportBody is a [client.Report] whose source is not decoded yet; see [checkBody]. The limits of the other fields
// are checked by [Server.readyReport].
type reportBody struct {
	client.Report
	Source json.RawMessage `json:"source"`
}

func (s *Server) voteReady(r *request) (any, error) {
	if err := r.noQuery(); err != nil {
		return nil, err
	}
	body, err := r.jsonBody()
	if err != nil {
		return nil, err
	}
	items, batch, err := parse[reportBody](body, r.set.MaxBatch)
	if err != nil {
		return nil, err
	}
	reports := make([]bulkhead.Report, len(items))
	for i := range items {
		if reports[i], err = s.readyReport(r, &items[i]); err != nil {
			return nil, at(err, i, batch)
		}
		// The reports of a batch share the header but are separate reports.
		if key := r.Header.Get("Idempotency-Key"); reports[i].ID == "" && key != "" {
			reports[i].ID = key
			if batch {
				reports[i].ID += "#" + strconv.Itoa(i)
			}
		}
		if err := checkID(reports[i].ID); err != nil {
			return nil, at(err, i, batch)
		}
	}
	if !batch {
		return s.tell(r, reports[0])
	}
	return s.tellAll(r, reports), nil
}

// inFlight is the number of reports of one batch that wait for the disk at once.
const inFlight = 64

// tellAll reports a batch concurrently, so that one write of the journal serves many
// reports.
func (s *Server) tellAll(r *request, reports []bulkhead.Report) []client.BatchReceipt {
	answers := make([]client.BatchReceipt, len(reports))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(inFlight, len(reports)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(reports); i = int(next.Add(1)) - 1 {
				receipt, err := s.tell(r, reports[i])
				answers[i] = client.BatchReceipt{Receipt: receipt, Problem: s.batchProblem(err)}
			}
		})
	}
	wg.Wait()
	return answers
}

func (s *Server) readyReport(r *request, in *reportBody) (bulkhead.Report, error) {
	if err := r.signatures(in.Signatures); err != nil {
		return bulkhead.Report{}, err
	}
	source, err := r.source(in.Source)
	if err != nil {
		return bulkhead.Report{}, err
	}
	vote, err := r.parseVote(in.Vote)
	if err != nil {
		return bulkhead.Report{}, err
	}
	who, err := s.reporter(r, in.Reporter)
	if err != nil {
		return bulkhead.Report{}, err
	}
	if n := utf8.RuneCountInString(in.User); n > maxUser {
		return bulkhead.Report{}, fmt.Errorf("%w: body: user of %d characters, limit %d", bulkhead.ErrMalformed, n, maxUser)
	}
	who.User = in.User
	if in.Trap && vote != bulkhead.Spam {
		return bulkhead.Report{}, fmt.Errorf("%w: the vote of a trap is spam, not %v", bulkhead.ErrMalformed, vote)
	}
	recipients, err := mailboxes(vote, in.Recipients)
	if err != nil {
		return bulkhead.Report{}, err
	}
	return bulkhead.Report{
		Signatures: s.withSenders(r, in.Signatures, source), Vote: vote, Count: in.Count,
		Recipients: recipients, Trap: in.Trap, Source: source, Reporter: who, ID: in.ID,
	}, nil
}

// mailboxes returns the recipients of a sighting in the form that a report has them.
func mailboxes(vote bulkhead.Vote, recipients []string) ([]string, error) {
	if vote != bulkhead.Sighting && len(recipients) > 0 {
		return nil, fmt.Errorf("%w: only a sighting has recipients", bulkhead.ErrMalformed)
	}
	if len(recipients) > bulkhead.MaxRecipients {
		return nil, fmt.Errorf("%w: %d recipients, limit %d", bulkhead.ErrMalformed, len(recipients), bulkhead.MaxRecipients)
	}
	var all []string
	for _, r := range recipients {
		if r == "" || len(r) > maxName {
			return nil, fmt.Errorf("%w: recipient of %d bytes, want 1 to %d", bulkhead.ErrMalformed, len(r), maxName)
		}
		all = append(all, bulkhead.Mailbox(r))
	}
	return all, nil
}

// reporter returns the reporter of a report: the client, or the stranger that the report names. A
// client cannot report under another account.
func (s *Server) reporter(r *request, stranger netip.Addr) (bulkhead.Reporter, error) {
	if stranger == (netip.Addr{}) {
		return r.who, nil
	}
	addr := stranger.Unmap().WithZone("")
	if addr.IsLoopback() || addr.IsUnspecified() {
		return bulkhead.Reporter{}, fmt.Errorf("%w: reporter %v is not an address of another machine",
			bulkhead.ErrMalformed, stranger)
	}
	if err := s.maySpeak(r); err != nil {
		return bulkhead.Reporter{}, fmt.Errorf("a report for a stranger: %w", err)
	}
	return bulkhead.Reporter{Addr: addr}, nil
}

// parseVote parses the vote of a report; "" stands for the path's default.
func (r *request) parseVote(text string) (bulkhead.Vote, error) {
	if text == "" {
		return r.unsaid, nil
	}
	if r.unsaid == bulkhead.Revocation {
		return 0, fmt.Errorf("%w: a revoke has no vote", bulkhead.ErrMalformed)
	}
	return bulkhead.ParseVote(text)
}

func checkID(id string) error {
	if len(id) > bulkhead.MaxID {
		return fmt.Errorf("%w: idempotency key of %d bytes, limit %d", bulkhead.ErrMalformed, len(id), bulkhead.MaxID)
	}
	return nil
}

func (s *Server) sign(r *request) (any, error) {
	if t := r.mediaType(); t != mailType {
		return nil, wrongType(t, mailType)
	}
	sigs, source, err := s.mail(r)
	if err != nil {
		return nil, err
	}
	if sigs == nil {
		sigs = []bulkhead.Signature{}
	}
	return &client.Signatures{
		Signatures: sigs,
		Source:     client.NewSource(&source),
	}, nil
}

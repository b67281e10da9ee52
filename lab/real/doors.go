package real

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// deliver hands a mail to a door, as the mail server or filter behind it does, and returns the
// answer. The door or the filter counts mail that is not refused as delivered.
func (p *process) deliver(ctx context.Context, door Door, m *Mail, rejects bool) (Answer, error) {
	switch door {
	case Milter:
		return p.askMilter(ctx, m, "")
	case Dccifd:
		return p.askDccifd(ctx, m)
	}
	return p.askPlugin(ctx, door, m, rejects)
}

// askDccifd sends a mail as a filter that uses dccifd does. Its answer marks spam, as many,
// and no other class.
func (p *process) askDccifd(ctx context.Context, m *Mail) (Answer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", p.dccifd)
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return Answer{}, err
	}
	fmt.Fprintf(conn, "header\n%v\r%s\n%s\n%s\n%s\n\n", m.Client, m.Helo, m.Helo, m.Sender, m.Recipient)
	if _, err := conn.Write(m.Raw); err != nil {
		return Answer{}, fmt.Errorf("real: dccifd: %w", err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return Answer{}, err
	}
	text, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		return Answer{}, fmt.Errorf("real: dccifd: %w", err)
	}
	if len(text) == 0 || text[0] == 'T' || !bytes.Contains(text, []byte("Body=")) && len(m.Text) > 200 {
		return Answer{}, fmt.Errorf("real: dccifd answers %.200q", text)
	}
	unfolded := strings.Join(strings.Fields(string(text)), " ")
	if strings.Contains(unfolded, "bulk") && strings.Contains(unfolded, "=many") {
		// It gives no reason, so the node is asked again.
		a := shown(Dccifd, bulkhead.ClassSpam)
		if v, err := p.check(ctx, m); err == nil {
			a.Rule, a.Reason = v.Rule, v.reason()
		}
		return a, nil
	}
	return shown(Dccifd, bulkhead.ClassUnknown), nil
}

// verified is what a filter has verified of a message, by the names of the plugins.
type verified struct {
	Client string   `json:"client,omitempty"`
	Sender string   `json:"sender,omitempty"`
	DKIM   []string `json:"dkim,omitempty"`
}

func (m *Mail) verified() verified {
	v := verified{Client: m.Client.String(), DKIM: m.DKIM}
	if m.SPF != "" {
		v.Sender = m.Sender
	}
	return v
}

// A checked is the answer to a check.
type checked struct {
	Class    string
	Rule     string
	Reasons  []string
	Learned  float64
	Findings []struct{ Signature string }
}

// reason returns the first reason, "" without one.
func (c *checked) reason() string {
	if len(c.Reasons) == 0 {
		return ""
	}
	return c.Reasons[0]
}

// check asks for the verdict on a whole mail, as the plugins do. The error is a refusal for a mail with too
// little text.
func (p *process) check(ctx context.Context, m *Mail) (c checked, err error) {
	v := m.verified()
	q := url.Values{"client": {v.Client}}
	if v.Sender != "" {
		q.Set("sender", v.Sender)
	}
	q["dkim"] = v.DKIM
	answer, err := p.post(ctx, "/v1/check?"+q.Encode(), "message/rfc822", m.Raw)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(answer, &c); err != nil {
		return c, fmt.Errorf("real: answer to a check: %w", err)
	}
	return c, nil
}

// askPlugin makes the requests of the plugins for rspamd and SpamAssassin: a check of the whole
// mail with what was verified, and a report of its delivery.
func (p *process) askPlugin(ctx context.Context, door Door, m *Mail, rejects bool) (Answer, error) {
	verdict, err := p.check(ctx, m)
	if err != nil {
		if errors.As(err, new(refusal)) { // too little text to identify the mail
			return Answer{Class: bulkhead.ClassUnknown}, nil
		}
		return Answer{}, err
	}
	class, err := parseClass(verdict.Class)
	given := Answer{Class: class, Rule: verdict.Rule, Reason: verdict.reason()}
	if err != nil || len(verdict.Findings) == 0 || class == bulkhead.ClassSpam && (rejects || door == SpamAssassin) {
		return given, err // the plugin for SpamAssassin counts no spam
	}
	report := map[string]any{"vote": "sighting", "source": m.verified(), "recipients": []string{m.Recipient}}
	var signatures []string
	for _, f := range verdict.Findings {
		signatures = append(signatures, f.Signature)
	}
	report["signatures"] = signatures
	if id := m.MessageID; door == SpamAssassin && id != "" && len(id) <= 230 { // the plugin's limit
		report["id"] = "<" + id + ">"
	}
	body, err := json.Marshal(report)
	if err != nil {
		return Answer{}, err
	}
	_, err = p.post(ctx, "/v1/report", "application/json", body)
	return given, err
}

// shown returns what a door shows of a class that a node gives.
func shown(door Door, class bulkhead.Class) Answer {
	switch {
	case door == Dccifd && class == bulkhead.ClassSpam:
		return Answer{Class: class, Partial: true}
	case door == Dccifd, door == Milter && class <= bulkhead.ClassGood:
		return Answer{Class: bulkhead.ClassUnknown, Partial: true}
	}
	return Answer{Class: class}
}

// parseClass reads the name of a class.
func parseClass(name string) (bulkhead.Class, error) {
	for _, c := range []bulkhead.Class{
		bulkhead.ClassUnknown, bulkhead.ClassGood, bulkhead.ClassBulk, bulkhead.ClassSuspected, bulkhead.ClassSpam,
	} {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("real: class %.40q", name)
}

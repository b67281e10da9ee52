package load

import (
	"bytes"
	"fmt"
	"net"

	"github.com/bulkhead-mail/bulkhead/policy"
)

// A Policy asks as Postfix does at each RCPT.
type Policy struct {
	Options
	Address  string
	Accounts int
}

// A policyClient has one request, in which the digits of account and recipient
// change.
type policyClient struct {
	conn               net.Conn
	request            []byte
	account, recipient []byte // within request
	next, accounts     int
	answer             []byte
}

// Connect returns client i.
func (o *Policy) Connect(i int) (Client, error) {
	conn, err := dialLocal("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	const place = "00000000"
	request, err := policy.AppendRequest(nil,
		"protocol_state", "RCPT", "protocol_name", "ESMTP", "client_address", "192.0.2.7", "client_name",
		"client.example.org",
		"client_port", "40112", "reverse_client_name", "client.example.org", "server_address", "192.0.2.1", "server_port",
		"25",
		"helo_name", "client.example.org", "sender", "ann@example.org", "recipient", "r"+place+"@example.net",
		"recipient_count", "0", "queue_id", "", "instance", "1c2f.65e0a1b2.3c4d5.0", "size", "20480", "etrn_domain", "",
		"stress", "",
		"sasl_method", "plain", "sasl_username", "u"+place, "sasl_sender", "", "ccert_subject", "", "ccert_issuer", "",
		"ccert_fingerprint", "", "encryption_protocol", "TLSv1.3", "encryption_cipher", "TLS_AES_256_GCM_SHA384",
		"encryption_keysize", "256",
		"policy_context", "")
	if err != nil {
		return nil, err
	}
	digits := func(mark string) []byte {
		at := bytes.Index(request, []byte(mark)) + len(mark)
		return request[at : at+len(place)]
	}
	return &policyClient{
		conn: conn, request: request, account: digits("sasl_username=u"), recipient: digits("recipient=r"),
		next: i * 7919, accounts: max(1, o.Accounts), answer: make([]byte, 512),
	}, nil
}

// Close implements [Client].
func (c *policyClient) Close() error { return c.conn.Close() }

// Do implements [Client].
func (c *policyClient) Do() error {
	c.next++
	writeDigits(c.account, c.next%c.accounts)
	writeDigits(c.recipient, c.next)
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	n := 0
	for !bytes.HasSuffix(c.answer[:n], []byte("\n\n")) {
		k, err := c.conn.Read(c.answer[n:])
		if err != nil {
			return err
		}
		n += k
	}
	if !bytes.HasPrefix(c.answer, []byte("action=")) {
		return fmt.Errorf("answer %.60q", c.answer[:n])
	}
	return nil
}

func writeDigits(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
}

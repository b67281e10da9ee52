package milter

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// A packet is four bytes of length, a command and its data. Comments give the names in
// libmilter's mfdef.h.
const (
	cmdAbort   = 'A' // SMFIC_ABORT
	cmdBody    = 'B' // SMFIC_BODY
	cmdConnect = 'C' // SMFIC_CONNECT
	cmdMacro   = 'D' // SMFIC_MACRO
	cmdEnd     = 'E' // SMFIC_BODYEOB
	cmdHelo    = 'H' // SMFIC_HELO
	cmdNewConn = 'K' // SMFIC_QUIT_NC
	cmdHeader  = 'L' // SMFIC_HEADER
	cmdMail    = 'M' // SMFIC_MAIL
	cmdEOH     = 'N' // SMFIC_EOH
	cmdOptions = 'O' // SMFIC_OPTNEG
	cmdQuit    = 'Q' // SMFIC_QUIT
	cmdRcpt    = 'R' // SMFIC_RCPT
	cmdData    = 'T' // SMFIC_DATA
	cmdUnknown = 'U' // SMFIC_UNKNOWN
)

const (
	replyAccept     = 'a' // SMFIR_ACCEPT
	replyContinue   = 'c' // SMFIR_CONTINUE
	replyDiscard    = 'd' // SMFIR_DISCARD
	replyInsert     = 'i' // SMFIR_INSHEADER
	replyChange     = 'm' // SMFIR_CHGHEADER
	replyQuarantine = 'q' // SMFIR_QUARANTINE
	replySkip       = 's' // SMFIR_SKIP
	replyTempfail   = 't' // SMFIR_TEMPFAIL
	replyCode       = 'y' // SMFIR_REPLYCODE
)

// Actions that a milter may take, as it announces them.
const (
	actAddHeaders    = 1 << 0 // SMFIF_ADDHDRS
	actChangeHeaders = 1 << 4 // SMFIF_CHGHDRS
	actQuarantine    = 1 << 5 // SMFIF_QUARANTINE
	actSetMacros     = 1 << 8 // SMFIF_SETSYMLIST
)

// Steps of the protocol that a milter can do without.
const (
	noHelo      = 1 << 1  // SMFIP_NOHELO
	noReplyHdr  = 1 << 7  // SMFIP_NR_HDR
	noUnknown   = 1 << 8  // SMFIP_NOUNKNOWN
	noData      = 1 << 9  // SMFIP_NODATA
	canSkip     = 1 << 10 // SMFIP_SKIP
	noReplyConn = 1 << 12 // SMFIP_NR_CONN
	noReplyHelo = 1 << 13 // SMFIP_NR_HELO
	noReplyMail = 1 << 14 // SMFIP_NR_MAIL
	noReplyRcpt = 1 << 15 // SMFIP_NR_RCPT
	noReplyData = 1 << 16 // SMFIP_NR_DATA
	noReplyUnkn = 1 << 17 // SMFIP_NR_UNKN
	noReplyEOH  = 1 << 18 // SMFIP_NR_EOH
	noReplyBody = 1 << 19 // SMFIP_NR_BODY
	headerSpace = 1 << 20 // SMFIP_HDR_LEADSPC
)

// noReply has the flag that suppresses the reply to a command.
var noReply = map[byte]uint32{
	cmdConnect: noReplyConn, cmdHelo: noReplyHelo, cmdMail: noReplyMail, cmdRcpt: noReplyRcpt, cmdData: noReplyData,
	cmdUnknown: noReplyUnkn, cmdHeader: noReplyHdr, cmdEOH: noReplyEOH, cmdBody: noReplyBody,
}

// macroStages are the stages for which macros are requested, SMFIM_CONNECT to SMFIM_EOM.
var macroStages = []struct {
	stage uint32
	names string
}{
	{0, "j {client_addr}"},
	{2, "i {auth_authen}"},
	{3, "i {rcpt_mailer}"},
	{5, "i"},
}

// The supported versions.
const (
	minVersion = 2
	maxVersion = 6
)

// maxPacket is the longest packet that is read, in bytes. Mail servers send body
// chunks of 64 KiB, and headers whole: Postfix reads at most 100 KB of them.
const maxPacket = 1 << 20

// A packet is one command as received. Its data are valid until the next one is read.
type packet struct {
	cmd  byte
	data []byte
}

// readPacket reads the next packet into buf, which grows as the bytes arrive.
// It returns io.EOF only between two packets.
func readPacket(r *bufio.Reader, buf []byte) (packet, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return packet{}, buf, err
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return packet{}, buf, unexpected(err)
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n < 1 || n > maxPacket {
		return packet{}, buf, malformed("packet of %d bytes, want 1 to %d", n, maxPacket)
	}
	buf = buf[:0]
	for rest := int(n) - 1; rest > 0; {
		part := min(rest, 64<<10)
		start := len(buf)
		buf = append(buf, make([]byte, part)...)
		if _, err := io.ReadFull(r, buf[start:]); err != nil {
			return packet{}, buf, unexpected(err)
		}
		rest -= part
	}
	return packet{head[4], buf}, buf, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("milter: %w: %s", bulkhead.ErrMalformed, fmt.Sprintf(format, args...))
}

// appendPacket appends a reply to dst.
func appendPacket(dst []byte, code byte, parts ...[]byte) []byte {
	n := 1
	for _, p := range parts {
		n += len(p)
	}
	dst = append(binary.BigEndian.AppendUint32(dst, uint32(n)), code)
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}

var nul = []byte{0}

// strings0 splits data into strings that each end in NUL.
func strings0(data []byte) ([]string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if data[len(data)-1] != 0 {
		return nil, malformed("string %.40q has no end", data)
	}
	return strings.Split(string(data[:len(data)-1]), "\x00"), nil
}

// options are the offer or the answer of a negotiation.
type options struct {
	version, actions, steps uint32
}

func parseOptions(data []byte) (options, error) {
	if len(data) < 12 {
		return options{}, malformed("negotiation of %d bytes, want 12", len(data))
	}
	o := options{binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])}
	if o.version < minVersion {
		return options{}, malformed("protocol version %d, want %d or more", o.version, minVersion)
	}
	return o, nil
}

// append appends the packet of o, with the requested macros.
func (o options) append(dst []byte) []byte {
	var b []byte
	b = binary.BigEndian.AppendUint32(b, o.version)
	b = binary.BigEndian.AppendUint32(b, o.actions)
	b = binary.BigEndian.AppendUint32(b, o.steps)
	if o.actions&actSetMacros != 0 {
		for _, m := range macroStages {
			b = binary.BigEndian.AppendUint32(b, m.stage)
			b = append(append(b, m.names...), 0)
		}
	}
	return appendPacket(dst, cmdOptions, b)
}

// A client is the SMTP client according to SMFIC_CONNECT.
type client struct {
	name  string
	addr  netip.Addr // the zero Addr for a unix socket or an unknown client
	local bool       // a unix socket, or submitted on the machine
}

func parseConnect(data []byte) (client, error) {
	name, rest, ok := bytes.Cut(data, nul)
	if !ok || len(rest) < 1 {
		return client{}, malformed("connection from %.40q without a family", data)
	}
	c := client{name: string(name)}
	family, rest := rest[0], rest[1:]
	switch family {
	case 'U': // SMFIA_UNKNOWN: mail that did not come by SMTP
		c.local = true
	case 'L': // SMFIA_UNIX
		c.local = true
	case '4', '6': // SMFIA_INET, SMFIA_INET6: port, address
		text, _, ok := bytes.Cut(rest[min(2, len(rest)):], nul)
		text = bytes.TrimPrefix(text, []byte("IPv6:"))
		if ok && string(text) == "unknown" {
			break // to Postfix: a proxy in front of it did not name the client
		}
		addr, err := netip.ParseAddr(strings.Trim(string(text), "[]"))
		if !ok || err != nil {
			return client{}, malformed("connection from address %.60q", text)
		}
		c.addr = addr.Unmap().WithZone("")
	default:
		return client{}, malformed("connection of family %q", family)
	}
	return c, nil
}

// parseAddress reads the first string of SMFIC_MAIL or SMFIC_RCPT: a path, with
// or without angle brackets.
func parseAddress(data []byte) (string, error) {
	all, err := strings0(data)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", malformed("no address")
	}
	return strings.TrimSuffix(strings.TrimPrefix(all[0], "<"), ">"), nil
}

// parseHeader reads name and value of SMFIC_HEADER.
func parseHeader(data []byte) (name, value []byte, err error) {
	name, rest, ok := bytes.Cut(data, nul)
	if !ok || len(rest) < 1 || rest[len(rest)-1] != 0 {
		return nil, nil, malformed("header %.40q without an end", data)
	}
	return name, rest[:len(rest)-1], nil
}

// parseMacros reads SMFIC_MACRO: the command the macros belong to, and pairs of
// name and value.
func parseMacros(data []byte) (cmd byte, pairs []string, err error) {
	if len(data) < 1 {
		return cmd, nil, malformed("macros without a command")
	}
	pairs, err = strings0(data[1:])
	if err != nil || len(pairs)%2 != 0 {
		return cmd, nil, malformed("macros of command %q: %d strings", data[0], len(pairs))
	}
	return data[0], pairs, nil
}

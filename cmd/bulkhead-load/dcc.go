package main

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

type dccLoad struct {
	datagrams
	op       string
	id       uint32
	password string
	known    uint64
}

func newDCCCommand() *cobra.Command {
	var o dccLoad
	cmd := &cobra.Command{
		Use:   "dcc",
		Short: "NOP, QUERY or REPORT of three checksums over UDP",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op, ok := map[string]byte{"nop": 1, "report": 2, "query": 3}[o.op]
			if !ok {
				return fmt.Errorf("--op %q, want nop, query or report", o.op)
			}
			seed := uint64(time.Now().UnixNano())
			o.request = func(dst []byte, tag uint32, n uint64) []byte { return o.appendRequest(dst, op, tag, n, seed) }
			o.answer = dccAnswer
			return o.run(cmd.Context(), cmd.OutOrStdout(), "dcc "+o.op)
		},
	}
	o.flags(cmd, "127.0.0.1:6277")
	f := cmd.Flags()
	f.StringVar(&o.op, "op", "query", "nop, query or report")
	f.Uint32Var(&o.id, "id", 1, "client-id; 1 is anonymous")
	f.StringVar(&o.password, "password", "", "its password")
	f.Uint64Var(&o.known, "messages", 10_000, "distinct messages that requests are drawn from; 0: each request has a new one")
	return cmd
}

// appendRequest appends a DCC packet of version 12; see docs/specs/dcc.md#client-server-protocol.
func (o *dccLoad) appendRequest(dst []byte, op byte, tag uint32, n, seed uint64) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 12, op)
	dst = binary.BigEndian.AppendUint32(dst, o.id)
	dst = binary.LittleEndian.AppendUint64(dst, seed)
	dst = binary.LittleEndian.AppendUint32(dst, tag)
	dst = binary.LittleEndian.AppendUint32(dst, 1)
	if op != 1 {
		message := n * 0x9e3779b97f4a7c15
		if o.known > 0 {
			message, seed = (message>>20)%o.known, 0
		}
		dst = binary.BigEndian.AppendUint32(dst, 1)
		for typ := byte(7); typ <= 9; typ++ {
			dst = append(dst, typ, 18)
			dst = binary.BigEndian.AppendUint64(dst, (message+uint64(typ))*0xbf58476d1ce4e5b9+seed)
			dst = binary.BigEndian.AppendUint64(dst, message^seed)
		}
	}
	binary.BigEndian.PutUint16(dst[start:], uint16(len(dst)-start+md5.Size))
	var sum [md5.Size]byte
	if o.password != "" {
		var keyed [32 + 256]byte
		copy(keyed[:32], o.password)
		sum = md5.Sum(append(keyed[:32], dst[start:]...))
	}
	return append(dst, sum[:]...)
}

func dccAnswer(data []byte) (tag uint32, err error) {
	if len(data) < 40 {
		return 0, fmt.Errorf("answer of %d bytes", len(data))
	}
	tag = binary.LittleEndian.Uint32(data[16:])
	if op := data[3]; op != 4 && op != 6 {
		return tag, fmt.Errorf("operation %d: %.80q", op, data[24:len(data)-16])
	}
	return tag, nil
}

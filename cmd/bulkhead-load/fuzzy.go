package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/fuzzy"
)

type fuzzyLoad struct {
	datagrams
	op       string
	shingles bool
	equal    int
	known    uint64
	flag     uint8
}

func newFuzzyCommand() *cobra.Command {
	var o fuzzyLoad
	cmd := &cobra.Command{
		Use:   "fuzzy",
		Short: "check, near or write of rspamd's fuzzy protocol over UDP",
		Long: "Load a fuzzy storage, ours or rspamd's. \"write\" stores digests; \"check\" asks for\n" +
			"digests of the same set; \"near\" asks for others whose shingles are near copies of\n" +
			"that set. With --messages 0 every request has a new digest: checks that miss.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch o.op {
			case "check", "near", "write":
			default:
				return fmt.Errorf("--op %q, want check, near or write", o.op)
			}
			if o.equal < 0 || o.equal > 32 {
				return fmt.Errorf("--equal %d, want 0 to 32", o.equal)
			}
			o.request = o.appendRequest
			o.answer = func(data []byte) (uint32, error) {
				r, err := fuzzy.ParseReply(data)
				if err != nil {
					return 0, err
				}
				return r.Tag, r.Err()
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), "fuzzy "+o.op)
		},
	}
	o.flags(cmd, "127.0.0.1:11335")
	f := cmd.Flags()
	f.StringVar(&o.op, "op", "check", "check, near or write")
	f.BoolVar(&o.shingles, "shingles", false, "send shingles with checks and writes")
	f.IntVar(&o.equal, "equal", 26, "shingles, of 32, that a near copy has in common with the original")
	f.Uint64Var(&o.known, "messages", 100_000, "distinct messages that requests are drawn from, in turn for writes; 0: each request has a new one")
	f.Uint8Var(&o.flag, "flag", 1, "list to write to")
	return cmd
}

func (o *fuzzyLoad) appendRequest(dst []byte, tag uint32, n uint64) []byte {
	r := fuzzy.Request{Version: 4, Tag: tag, Command: fuzzy.Check, Shingled: o.shingles || o.op == "near"}
	message := n
	switch {
	case o.known > 0 && o.op == "write":
		message = n % o.known
	case o.known > 0:
		message = (n * 0x9e3779b97f4a7c15 >> 20) % o.known
	default:
		message = n + 1<<40
	}
	if o.op == "write" {
		r.Command, r.Flag, r.Value = fuzzy.Write, o.flag, 10
	}
	source := rand.NewPCG(message, 1)
	for i := range len(r.Digest) / 8 {
		binary.LittleEndian.PutUint64(r.Digest[8*i:], source.Uint64())
	}
	if r.Shingled {
		for i := range r.Shingles {
			r.Shingles[i] = source.Uint64()
		}
	}
	if o.op == "near" {
		r.Digest[0] ^= 0xff
		random := rand.New(rand.NewPCG(n, 2))
		for _, i := range random.Perm(len(r.Shingles))[o.equal:] {
			r.Shingles[i] = random.Uint64()
		}
	}
	return r.Append(dst)
}

package load

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// An HTTP makes clients that ask about one signature at a time, or report it.
type HTTP struct {
	Options
	Address, Op, Token string
	Known              uint64
}

// Connect returns client i. Its requests differ only in the signature, so that it makes one
// by writing 40 hexadecimal digits.
func (o *HTTP) Connect(i int) (Client, error) {
	const place = "0000000000000000000000000000000000000000"
	body := `{"signatures":["pyzor/digest:` + place + `"]}`
	var b strings.Builder
	fmt.Fprintf(&b, "POST /v1/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", o.Op,
		o.Address, len(body))
	if o.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.Token)
	}
	request := []byte(b.String() + "\r\n" + body)
	digits := request[len(request)-len(`"]}`)-len(place):][:len(place)]
	rng := rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))
	return NewHTTPClient(o.Address, 30*time.Second, func() []byte {
		n := rng.Uint64()
		if o.Known > 0 {
			n %= o.Known
		}
		var sum [20]byte
		// Spread by a multiplication, so that equal numbers give equal sums.
		binary.BigEndian.PutUint64(sum[:], n*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(sum[8:], n)
		hex.Encode(digits, sum[:])
		return request
	})
}

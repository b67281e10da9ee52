package bus

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// Grants returns exactly the subjects that a node needs to publish and to subscribe to: the
// subjects of its own messages, of all messages of its network, and of the messages stored by the
// broker, in the JetStream with the API prefix api.
func (n names) Grants(h wire.Hint, api string) (publish, subscribe []string) {
	publish = []string{n.Subject(wire.Topic{Kind: wire.KindDelta, Origin: h}), n.HeadsOf(h), n.imagesOf(h), n.asksOf(h)}
	for _, stream := range []string{n.DeltaStream(), n.ImageStream()} {
		publish = append(publish, api+"STREAM.INFO."+stream, api+"CONSUMER.CREATE."+stream,
			api+"CONSUMER.CREATE."+stream+".>",
			api+"CONSUMER.INFO."+stream+".*", api+"CONSUMER.DELETE."+stream+".*", api+"CONSUMER.MSG.NEXT."+stream+".*")
	}
	return publish, []string{n.All(wire.KindDelta), n.All(wire.KindHead), HeadsOfAll, n.All(wire.KindImage) + ".*",
		n.asksFor(h),
		Inbox(h) + ".>"}
}

// Grants returns the configuration of a NATS server that admits the nodes with the given keys to
// the network with the given fingerprint, each with least privilege. The first node also makes the
// streams, and may keep a group. The streams are in the JetStream domain of the given name, "" for
// the server's own. The
// error for an invalid fingerprint or key wraps [bulkhead.ErrMalformed].
func Grants(network, domain string, keys ...string) (string, error) {
	if raw, err := hex.DecodeString(network); err != nil || len(raw) != 8 || network != strings.ToLower(network) {
		return "", fmt.Errorf("%w: mesh: %.40q is not the fingerprint of a network: want 16 hexadecimal digits",
			bulkhead.ErrMalformed, network)
	}
	n, api := names{network}, JetStreamAPI(domain)
	var b strings.Builder
	fmt.Fprintf(&b, "# Nodes of network %s. Each signs in with its own key.\nauthorization {\n  users = [\n", n.Net)
	list := func(what string, subjects []string) {
		fmt.Fprintf(&b, "        %s: [\n", what)
		for _, s := range subjects {
			fmt.Fprintf(&b, "          %q\n", s)
		}
		b.WriteString("        ]\n")
	}
	for i, key := range keys {
		p, err := wire.ParsePublic(key)
		if err != nil {
			return "", fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
		}
		publish, subscribe := n.Grants(p.Hint(), api)
		publish = append(publish, wire.GroupPrefix+p.Hint().String())
		if i == 0 {
			publish = append(publish, api+"STREAM.CREATE."+n.DeltaStream(), api+"STREAM.CREATE."+n.ImageStream())
			subscribe = append(subscribe, wire.GroupPrefix+"*")
		}
		fmt.Fprintf(&b, "    { nkey: %s, permissions: {\n", key)
		list("publish", publish)
		list("subscribe", subscribe)
		if i == 0 {
			b.WriteString("        allow_responses: true\n")
		}
		b.WriteString("    } }\n")
	}
	b.WriteString("  ]\n}\n")
	return b.String(), nil
}

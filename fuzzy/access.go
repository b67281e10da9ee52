package fuzzy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// read decrypts and parses the datagram of j.
func (s *Server) read(j *job) error {
	if door.Within(s.Blocked, j.client.Addr()) {
		return fmt.Errorf("%w: blocked", errNoAnswer)
	}
	if !isEncrypted(j.data) {
		return ParseRequest(j.data, &j.req)
	}
	s.Stats.Encrypted.Add(1)
	if len(s.Keys) == 0 {
		return fmt.Errorf("%w: encrypted request, and no key is configured", errNoAnswer)
	}
	j.key = s.Keys[0]
	for _, k := range s.Keys {
		if sameKeyID(&k.Public, keyIDOf(j.data)) {
			j.key = k
			break
		}
	}
	shared, err := s.sharedWith(j)
	if err != nil {
		return err
	}
	plain, err := shared.open(j.data[offNonce:offMAC], j.data[offMAC:cryptHeader], j.data[cryptHeader:])
	if err != nil {
		return err
	}
	j.shared = shared
	return ParseRequest(plain, &j.req)
}

// sharedWith returns the shared key for j, and computes it if the limits allow.
func (s *Server) sharedWith(j *job) (*sharedKey, error) {
	id := sharedID{server: j.key.Public, client: [32]byte(j.data[offPublic:offNonce])}
	if k := s.keys.shared.get(&id); k != nil {
		return k, nil
	}
	if !s.keys.limiter.Allow(j.client.Addr(), 1) {
		return nil, fmt.Errorf("%w: too many new client keys from this network", errNoAnswer)
	}
	k, err := deriveShared(&j.key.Secret, &id.client)
	if err != nil {
		return nil, err
	}
	s.keys.shared.put(&id, k)
	return k, nil
}

// refusal returns the code that refuses a request, 0 if it is allowed.
func (s *Server) refusal(j *job) int32 {
	update := j.req.Command == Write || j.req.Command == Delete
	if j.key == nil {
		switch {
		case s.EncryptedOnly:
			return CodeEncryption
		case update && (s.ReadOnly || !door.Within(s.UpdateFrom, j.client.Addr())):
			return CodeForbidden
		}
		return 0
	}
	switch {
	case !j.key.Expires.IsZero() && s.Now().After(j.key.Expires):
		return CodeForbidden
	case !j.key.limiter.Allow(anyClient, 1):
		return CodeRefused
	case update && (s.ReadOnly || !j.key.Update && !door.Within(s.UpdateFrom, j.client.Addr())):
		return CodeForbidden
	}
	return 0
}

// anyClient stands for all clients of a key in the key's own limiter.
var anyClient = netip.IPv4Unspecified()

// reporter returns the reporter of a request.
func (j *job) reporter() bulkhead.Reporter {
	r := bulkhead.Reporter{Addr: j.client.Addr()}
	if j.key != nil {
		r.Account = j.key.Account
	}
	return r
}

// hides reports whether a list is hidden from the client of j.
func (j *job) hides(flag uint8) bool { return j.key != nil && slices.Contains(j.key.Hidden, flag) }

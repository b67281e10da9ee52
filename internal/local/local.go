// Package local is the unix socket between a node and the commands of its machine: where it is, and
// which rights the users at its two ends have.
//
// The node asks the system for the user of each client, so a command needs no token. The command asks
// the system for the user of the server, so that no other user of the machine can pretend to be the node.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

const (
	// Name is the name of the socket in its folder.
	Name = "node.sock"
	// Group is the group of the machine whose members administer the node.
	Group = "bulkhead"
	// Overflow is the user that the kernel names for a process whose user is unknown in the namespace of
	// the one who asks.
	Overflow = 65534
)

// ErrStranger is wrapped by the error for a socket, or its folder, that belongs to a user who does not
// run the node.
var ErrStranger = errors.New("belongs to another user")

// Administers reports whether a client of a node that runs as the user own administers the node: root,
// own, and the members of [Group]. member reports whether a user, or a process with a group, is a
// member; see [Member].
func Administers(uid, gid, own uint32, member func(uid, gid uint32) bool) bool {
	switch uid {
	case 0:
		return true
	case Overflow:
		return false // it may be anyone
	case own:
		return true
	}
	return member(uid, gid)
}

// Member reports whether a user, or a process with a group, belongs to [Group] by the machine's files
// of users and groups.
func Member(uid, gid uint32) bool {
	group, err := user.LookupGroup(Group)
	if err != nil {
		return false
	}
	if group.Gid == strconv.FormatUint(uint64(gid), 10) {
		return true
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	ids, err := u.GroupIds()
	return err == nil && slices.Contains(ids, group.Gid)
}

// Dial connects to a node's socket. The server must run as root or as the owner of the socket's folder,
// and no other user may be able to put a socket there: otherwise the error wraps [ErrStranger]. It wraps
// [fs.ErrNotExist] if there is no socket, and [syscall.ECONNREFUSED] if no node answers.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	owner, err := ownerOf(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, _, err := PeerOf(conn.(*net.UnixConn))
	if err == nil && uid != 0 && uid != owner {
		err = fmt.Errorf("%s: its server runs as user %d: it %w", path, uid, ErrStranger)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// ownerOf returns the owner of a folder in which only its owner and root can create files.
func ownerOf(dir string) (uint32, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if info.Mode().Perm()&0o022 != 0 {
		return 0, fmt.Errorf("%s: other users may write there: its socket %w", dir, ErrStranger)
	}
	return s.Uid, nil
}

// IsMine reports whether a folder belongs to the user of this process. A folder that cannot be looked at is
// taken for one, so that its error is reported where it is used.
func IsMine(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

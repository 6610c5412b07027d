package deliver

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Shortage names what this server lacked for an attempt. A shortage says nothing of
// the receiver. The empty string means that nothing was lacking.
type Shortage string

// The shortages.
const (
	ShortOfDescriptors Shortage = "file descriptors"
	ShortOfMemory      Shortage = "memory"
	ShortOfPorts       Shortage = "local addresses or ports"
	ShortOfPermission  Shortage = "permission to connect" // such as a rule of a local firewall
	ShortOfResolver    Shortage = "a working DNS resolver"
)

// shortages are the errors of system calls that have their cause on this server.
// The numbers are those of Windows, which has names of its own for them.
var shortages = map[syscall.Errno]Shortage{
	syscall.EMFILE: ShortOfDescriptors, syscall.ENFILE: ShortOfDescriptors, syscall.Errno(10024): ShortOfDescriptors,
	syscall.ENOBUFS: ShortOfMemory, syscall.ENOMEM: ShortOfMemory, syscall.Errno(10055): ShortOfMemory,
	syscall.EADDRNOTAVAIL: ShortOfPorts, syscall.EADDRINUSE: ShortOfPorts, syscall.EAFNOSUPPORT: ShortOfPorts, syscall.Errno(10049): ShortOfPorts,
	syscall.EACCES: ShortOfPermission, syscall.EPERM: ShortOfPermission, syscall.Errno(10013): ShortOfPermission,
}

// shortageOf returns what this server lacked when a system call failed, or "".
func shortageOf(err error) Shortage {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return shortages[errno]
	}
	dns, ok := errors.AsType[*net.DNSError](err)
	if !ok {
		return ""
	}
	for errno, s := range shortages { // package net keeps the text of these alone
		if strings.HasSuffix(dns.Err, errno.Error()) {
			return s
		}
	}
	return ""
}

const (
	// probeTimeout bounds the question that shows whether the resolver works.
	probeTimeout = 2 * time.Second
	// probeValid is how long its answer holds.
	probeValid = 5 * time.Second
)

// resolverCheck finds out whose fault a failed lookup is. When no name server
// answers for a name, either the resolver of this server or the name servers of the
// receiver are at fault. A resolver that works answers for the root zone.
type resolverCheck struct {
	resolver *net.Resolver

	mu     sync.Mutex // held while the question is out: others wait for its answer
	asked  time.Time
	worked bool
}

// works reports whether the resolver answers. It takes up to probeTimeout.
func (c *resolverCheck) works(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() && time.Since(c.asked) < probeValid {
		return c.worked
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.resolver.LookupNS(ctx, ".")
	dns, isDNS := errors.AsType[*net.DNSError](err)
	c.worked = err == nil || isDNS && dns.IsNotFound
	c.asked = time.Now()
	return c.worked
}

// shortageOfLookup returns what this server lacked when a lookup failed, or "" where
// the name is at fault or its name servers are.
func (s *Sender) shortageOfLookup(ctx context.Context, err *net.DNSError) Shortage {
	if short := shortageOf(err); short != "" {
		return short
	}
	if err.IsNotFound { // an answer; but without descriptors the hosts file cannot be read either
		if at := s.outOfDescriptors.Load(); at != 0 && time.Since(time.Unix(0, at)) < probeValid {
			return ShortOfDescriptors
		}
		return ""
	}
	if ctx.Err() != nil || s.resolver.works(ctx) {
		return ""
	}
	return ShortOfResolver
}

// lacks notes that an attempt failed for lack of something, and makes room where it can.
func (s *Sender) lacks(short Shortage) {
	if short == ShortOfDescriptors {
		s.outOfDescriptors.Store(time.Now().UnixNano())
		s.pool.shed()
	}
}

//go:build !unix

package deliver

var newPoll = func(s *socket) (poll, error) { return &portablePoll{s}, nil }

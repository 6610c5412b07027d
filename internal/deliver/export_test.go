package deliver

// ControlPlain asks what the dialer for plain HTTP asks right before it connects,
// for addresses that a test must never really connect to.
func (s *Sender) ControlPlain(address string) error { return s.guard.controlPlain("tcp", address, nil) }

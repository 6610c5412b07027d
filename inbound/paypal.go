package inbound

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
)

// PayPal signs the id and time of the transmission, the id of the webhook and a
// checksum of the body, with a certificate that the request names by its URL.
// Source: developer.paypal.com, "Verify webhook signature".

const paypalAlgorithm = "SHA256withRSA"

func isPayPalHost(host string) bool { return strings.HasSuffix(host, ".paypal.com") }

func verifyPayPal(ctx context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	values := map[string]string{}
	for _, name := range []string{"Paypal-Transmission-Id", "Paypal-Transmission-Time", "Paypal-Transmission-Sig", "Paypal-Cert-Url", "Paypal-Auth-Algo"} {
		if values[name] = single(r.Header, name); values[name] == "" {
			return reject(ReasonMissingHeader, "the header "+strings.ToUpper(name)+" is missing, empty or repeated", ""), nil
		}
	}
	signature := fromBase64(values["Paypal-Transmission-Sig"])
	if signature == nil || values["Paypal-Auth-Algo"] != paypalAlgorithm {
		return reject(ReasonMalformedHeader, "PAYPAL-TRANSMISSION-SIG is not base64, or PAYPAL-AUTH-ALGO is not "+paypalAlgorithm, ""), nil
	}
	address := values["Paypal-Cert-Url"]
	if problem := trusted(address, isPayPalHost); problem != "" || !isPayPalCertificate(address) {
		return reject(ReasonUntrustedKey, "PAYPAL-CERT-URL is not a certificate on a host of paypal.com", "the request was not made by PayPal"), nil
	}
	k, err := v.keys.get(ctx, address, func(ctx context.Context) (key, error) {
		return v.fetchCertificate(ctx, address, v.checkPayPalChain)
	})
	if err != nil {
		return nil, err
	}
	checksum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(r.Body)), 10)
	for _, webhookID := range v.secrets {
		content := strings.Join([]string{values["Paypal-Transmission-Id"], values["Paypal-Transmission-Time"], webhookID, checksum}, "|")
		sum := sha256.Sum256([]byte(content))
		if rsa.VerifyPKCS1v15(k.rsa, crypto.SHA256, sum[:], signature) == nil {
			return v.checkFresh(rfc3339, values["Paypal-Transmission-Time"], r.At), nil
		}
	}
	return v.noMatch(), nil
}

func isPayPalCertificate(address string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.HasPrefix(u.Path, "/v1/notifications/certs/")
}

// checkPayPalChain makes sure that an authority gave the certificate to PayPal.
func (v *Verifier) checkPayPalChain(leaf *x509.Certificate, chain []*x509.Certificate) error {
	between := x509.NewCertPool()
	for _, c := range chain {
		between.AddCert(c)
	}
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	ours := false
	for _, name := range names {
		ours = ours || isPayPalHost(strings.ToLower(name))
	}
	if !ours {
		return errors.New("it is not for a host of paypal.com")
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: v.options.Roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

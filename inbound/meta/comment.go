package meta

// Comment is a comment of a post, a reel or a live video. Envelope.Own is true
// for the account's own ones, which come back and must not be answered.
type Comment struct {
	Envelope
	Verb     string // "add", "edited", "hide", "unhide", "remove"; "" on Instagram
	ID       string
	ParentID string // the comment that it answers, or the post
	PostID   string // Facebook
	MediaID  string // Instagram
	AdID     string // Instagram: the ad whose media it is
	Text     string
	From     Author
}

// Author wrote something in public. All of it is "" where privacy hides them.
type Author struct {
	ID   string
	Name string // a user name on Instagram
}

// DecodeComment reads the payload of a [TypeComment].
func DecodeComment(payload []byte) (Comment, error) {
	e, err := decode(payload, TypeComment)
	if err != nil {
		return Comment{}, err
	}
	value := raw(e.Item).get("value")
	from, media := value.get("from"), value.get("media")
	return Comment{
		Envelope: e, Verb: value.get("verb").text(), ID: value.first("comment_id", "id").text(),
		ParentID: value.get("parent_id").text(), PostID: value.get("post_id").text(),
		MediaID: media.get("id").text(), AdID: media.get("ad_id").text(), Text: value.first("text", "message").text(),
		From: Author{ID: from.get("id").text(), Name: from.first("username", "name").text()},
	}, nil
}

// Mention says where the account was mentioned; the text is for the Graph API to
// tell.
type Mention struct {
	Envelope
	MediaID   string // or the post's id on Facebook
	CommentID string // "" if the mention is in the caption
}

// DecodeMention reads the payload of a [TypeMention].
func DecodeMention(payload []byte) (Mention, error) {
	e, err := decode(payload, TypeMention)
	if err != nil {
		return Mention{}, err
	}
	value := raw(e.Item).get("value")
	return Mention{Envelope: e, MediaID: value.first("media_id", "post_id").text(), CommentID: value.get("comment_id").text()}, nil
}

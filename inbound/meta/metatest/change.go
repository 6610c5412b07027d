package metatest

import (
	"strconv"
	"time"
)

// Change is an element of changes[].
type Change struct {
	Field string         `json:"field"`
	Value map[string]any `json:"value"`
}

// InstagramComment is a comment of a medium.
func InstagramComment(id, mediaID, fromID, text string) Change {
	return Change{"comments", object{
		"id": id, "text": text, "from": object{"id": fromID, "username": "user" + fromID},
		"media": object{"id": mediaID, "media_product_type": "FEED"},
	}}
}

// PageComment is a comment of a Page's post.
func PageComment(at time.Time, id, postID, fromID, text string) Change {
	return Change{"feed", object{
		"item": "comment", "verb": "add", "comment_id": id, "post_id": postID, "parent_id": postID,
		"from": object{"id": fromID, "name": "Name " + fromID}, "message": text, "created_time": at.Unix(),
	}}
}

// InstagramMention is a mention in a comment.
func InstagramMention(mediaID, commentID string) Change {
	return Change{"mentions", object{"media_id": mediaID, "comment_id": commentID}}
}

// Phone is a WhatsApp number of a business in conversation with a customer.
type Phone struct{ ID, Number, Customer, Name string }

func (p Phone) change(name string, item object) Change {
	value := object{
		"messaging_product": "whatsapp",
		"metadata":          object{"display_phone_number": p.Number, "phone_number_id": p.ID},
		name:                []object{item},
	}
	if name == "messages" {
		value["contacts"] = []object{{"profile": object{"name": p.Name}, "wa_id": p.Customer}}
	}
	return Change{"messages", value}
}

// Text is a message of the customer.
func (p Phone) Text(at time.Time, wamid, text string) Change {
	return p.change("messages", object{
		"from": p.Customer, "id": wamid, "timestamp": strconv.FormatInt(at.Unix(), 10), "type": "text", "text": object{"body": text},
	})
}

// Status says what became of a message: "sent", "delivered" or "read".
func (p Phone) Status(at time.Time, wamid, status string) Change {
	return p.change("statuses", object{
		"id": wamid, "status": status, "timestamp": strconv.FormatInt(at.Unix(), 10), "recipient_id": p.Customer,
	})
}

// Failed says that a message could not be delivered, with a code such as 131047.
func (p Phone) Failed(at time.Time, wamid string, code int) Change {
	change := p.Status(at, wamid, "failed")
	status := change.Value["statuses"].([]object)[0]
	status["errors"] = []object{{"code": code, "title": "failed", "message": "failed", "error_data": object{"details": "a test"}}}
	return change
}

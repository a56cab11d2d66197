"""WhatsApp, by a bridge: a Node.js process that speaks protocol.md (bridges/whatsapp)."""

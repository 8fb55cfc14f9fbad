"""What is signed and how it is checked: certificates, receipts, keys."""

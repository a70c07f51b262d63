//! What must be put out of the way before a pin can hold.

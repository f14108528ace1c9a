"""A client for slow or hostile servers, and questions to chat models behind them."""

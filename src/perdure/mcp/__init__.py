"""MCP servers: programs of others whose tools a session offers to its model.

A server is started when the first session that wants it steps, kept for all sessions of its
project, and started anew when it has died. What the model was told of it stands while it is lost;
only the configuration takes it away.
"""

from __future__ import annotations

from perdure.mcp.server import Pace
from perdure.mcp.servers import Servers
from perdure.mcp.view import ServerStatus, ServersView

__all__ = ["Pace", "ServerStatus", "Servers", "ServersView"]

-- Wireshark dissector of MRC and of SprayCheck's flow announcements, as spraylab sends them.
--
-- Install:  mkdir -p ~/.local/lib/wireshark/plugins && cp docs/wireshark/mrc.lua ~/.local/lib/wireshark/plugins/
-- Or once:  tshark -X lua_script:docs/wireshark/mrc.lua -r FILE.pcap -V
--
-- Wireshark 4.0 or newer. All filters begin with mrc, docs/wireshark/README.md lists them. What comes to MRC's ports with
-- an opcode that is not MRC's goes on to Wireshark's own RoCE dissector.

-- begin of what agent/wire/lua_tables.py writes
local wire = {
  ports = { 4791, 4971 },
  announce_port = 54791,
  announce_magic = 0x53505259,
  announce_close = 1,
  announce_elsewhere = 2,
  icrc_bytes = 4,
  psn_modulus = 16777216,
  bitmap_bits = 64,
  port_mask_nxt = 0x1f,
  port_mask_bits = 32,
  mpr_unit = 128,
  rcvd_unit = 256,
  tick_ns = 8192,
  pkey = 0xffff,
  ce = 3,
  reserved_verdict = 3,
  opcode_group = 0x6,
  spraycheck_mark = 0x1,
  writes = { [0xc6] = true, [0xc7] = true, [0xc8] = true, [0xc9] = true, [0xca] = true, [0xcb] = true },
  immediates = { [0xc9] = true, [0xcb] = true },
  behind_bth = { [0xd1] = "AETH", [0xd8] = "ERTH", [0xd9] = "EETH", [0xdc] = "SETH", [0xdd] = "NETH", [0xde] = "PETH" },
  dscp = { [0x0] = "NO_TRIM", [0x4] = "TRIMMABLE", [0x8] = "TRIMMABLE_RETX", [0xc] = "TRIMMED", [0x10] = "TRIMMED_LASTHOP", [0x2e] = "CONTROL" },
  trimmed = { [0xc] = true, [0x10] = true },
  trimmed_lasthop = 16,
  copies = 16384,
  usid_block = 0x5f000000,
  usids = 6,
  t1 = 0x1,
  t0 = 0x2,
  downlink = 0xe,
  headers = {
    BTH = { bytes = 12, name = "MRC BTH",
      { "opcode", "mrc.opcode", at = 0, width = 1, kind = "uint", values = { [0xc6] = "WRITE_FIRST", [0xc7] = "WRITE_MIDDLE", [0xc8] = "WRITE_LAST", [0xc9] = "WRITE_LAST_IMM", [0xca] = "WRITE_ONLY", [0xcb] = "WRITE_ONLY_IMM", [0xd1] = "ACKNOWLEDGE", [0xd8] = "ENDPOINT_REQUEST", [0xd9] = "ENDPOINT_RESPONSE", [0xdc] = "SACK", [0xdd] = "NACK", [0xde] = "PROBE_REQUEST" } },
      { "se", "mrc.se", at = 1, width = 1, kind = "bool", mask = 0x80 },
      { "m", "mrc.m", at = 1, width = 1, kind = "bool", mask = 0x40 },
      { "pad", "mrc.pad", at = 1, width = 1, kind = "uint", mask = 0x30 },
      { "tver", "mrc.tver", at = 1, width = 1, kind = "uint", mask = 0xf },
      { "pkey", "mrc.pkey", at = 2, width = 2, kind = "uint", hex = true },
      { "var_res", "mrc.var_res", at = 4, width = 1, kind = "uint", hex = true },
      { "dqp", "mrc.dqp", at = 5, width = 3, kind = "uint", hex = true },
      { "a", "mrc.ack_request", at = 8, width = 1, kind = "bool", mask = 0x80 },
      { "r", "mrc.r", at = 8, width = 1, kind = "bool", mask = 0x40 },
      { "rtx", "mrc.rtx", at = 8, width = 1, kind = "bool", mask = 0x20 },
      { "ts", "mrc.ts", at = 8, width = 1, kind = "bool", mask = 0x10 },
      { "inv_res", "mrc.inv_res", at = 8, width = 1, kind = "uint", mask = 0xf },
      { "psn", "mrc.psn", at = 9, width = 3, kind = "uint" },
    },
    METH = { bytes = 4, name = "MRC METH",
      { "rqmsn", "mrc.meth.rqmsn", at = 0, width = 2, kind = "uint" },
      { "msn", "mrc.meth.msn", at = 2, width = 2, kind = "uint" },
    },
    TSETH = { bytes = 4, name = "MRC TSETH",
      { "tx_timestamp", "mrc.tseth.tx_timestamp", at = 0, width = 2, kind = "uint" },
      { "tsr", "mrc.tseth.tsr", at = 2, width = 2, kind = "bool", mask = 0x8000 },
      { "res", "mrc.tseth.res", at = 2, width = 2, kind = "uint", mask = 0x7ff0 },
      { "ftype", "mrc.tseth.ftype", at = 2, width = 2, kind = "uint", mask = 0xf },
    },
    RETH = { bytes = 16, name = "MRC RETH",
      { "va", "mrc.reth.va", at = 0, width = 8, kind = "uint", hex = true },
      { "rkey", "mrc.reth.rkey", at = 8, width = 4, kind = "uint", hex = true },
      { "dmalen", "mrc.reth.dmalen", at = 12, width = 4, kind = "uint" },
    },
    ImmDt = { bytes = 4, name = "MRC ImmDt",
      { "imm", "mrc.immdt.imm", at = 0, width = 4, kind = "uint", hex = true },
    },
    AETH = { bytes = 4, name = "MRC AETH",
      { "syndrome", "mrc.ack.syndrome", at = 0, width = 1, kind = "uint", values = { [0x1f] = "ACK", [0x61] = "NAK INVALID_REQUEST", [0x62] = "NAK REMOTE_ACCESS_ERROR", [0x63] = "NAK REMOTE_OPERATIONAL_ERROR" } },
      { "msn", "mrc.ack.msn", at = 1, width = 3, kind = "uint" },
    },
    SETH = { bytes = 28, name = "MRC SETH",
      { "type", "mrc.sack.type", at = 0, width = 2, kind = "uint", mask = 0xf000 },
      { "nxt", "mrc.sack.nxt", at = 0, width = 2, kind = "uint", mask = 0xf80 },
      { "m", "mrc.sack.m", at = 0, width = 2, kind = "uint", mask = 0x60, values = { [0x0] = "NONE", [0x1] = "SKIP_ONCE", [0x2] = "ALWAYS_SKIP" } },
      { "r0", "mrc.sack.r0", at = 0, width = 2, kind = "uint", mask = 0x1c },
      { "pr", "mrc.sack.pr", at = 0, width = 2, kind = "bool", mask = 0x2 },
      { "r1", "mrc.sack.r1", at = 0, width = 2, kind = "bool", mask = 0x1 },
      { "ack_psn_offset", "mrc.sack.ack_psn_offset", at = 2, width = 2, kind = "int" },
      { "entropy", "mrc.sack.ev", at = 4, width = 4, kind = "uint", hex = true },
      { "spdcid", "mrc.sack.spdcid", at = 8, width = 2, kind = "uint", hex = true },
      { "dpdcid", "mrc.sack.dpdcid", at = 10, width = 2, kind = "uint", hex = true },
      { "res", "mrc.sack.res", at = 12, width = 1, kind = "uint" },
      { "cack_psn", "mrc.sack.cack", at = 13, width = 3, kind = "uint" },
      { "cc_type", "mrc.sack.cc_type", at = 16, width = 1, kind = "uint", mask = 0xf0 },
      { "cc_fl", "mrc.sack.cc_fl", at = 16, width = 1, kind = "uint", mask = 0xf },
      { "mpr", "mrc.sack.mpr", at = 17, width = 1, kind = "uint" },
      { "sack_offset", "mrc.sack.sack_offset", at = 18, width = 2, kind = "int" },
      { "sack_bitmap", "mrc.sack.sack_bitmap", at = 20, width = 8, kind = "uint", hex = true },
    },
    CC_STATE = { bytes = 8, name = "MRC CC_STATE",
      { "tx_timestamp", "mrc.cc.tx_timestamp", at = 0, width = 2, kind = "uint" },
      { "r", "mrc.cc.r", at = 2, width = 2, kind = "bool", mask = 0x8000 },
      { "ooo_count", "mrc.cc.ooo_count", at = 2, width = 2, kind = "uint", mask = 0x7fff },
      { "restore_cwnd", "mrc.cc.restore_cwnd", at = 4, width = 1, kind = "bool", mask = 0x80 },
      { "rcv_cwnd_pen", "mrc.cc.rcv_cwnd_pen", at = 4, width = 1, kind = "uint", mask = 0x7f },
      { "rcvd_bytes", "mrc.cc.rcvd_bytes", at = 5, width = 3, kind = "uint" },
    },
    PortMask = { bytes = 4, name = "MRC port mask",
      { "port_mask", "mrc.ports.port_mask", at = 0, width = 4, kind = "uint", hex = true },
    },
    NETH = { bytes = 20, name = "MRC NETH",
      { "res0", "mrc.nack.res0", at = 0, width = 2, kind = "uint", hex = true },
      { "nack_reason", "mrc.nack.reason", at = 2, width = 1, kind = "uint", values = { [0x1] = "TRIMMED", [0x2] = "TRIMMED_LASTHOP", [0x6] = "NO_BITMAP", [0x7] = "NO_PKT_BUFFER", [0xa] = "NO_RESOURCE", [0xb] = "PSN_OOR_WINDOW", [0x19] = "UNEXP_EVENT" } },
      { "vendor_info", "mrc.nack.vendor_info", at = 3, width = 1, kind = "uint" },
      { "entropy", "mrc.nack.ev", at = 4, width = 4, kind = "uint", hex = true },
      { "spdcid", "mrc.nack.spdcid", at = 8, width = 2, kind = "uint", hex = true },
      { "dpdcid", "mrc.nack.dpdcid", at = 10, width = 2, kind = "uint", hex = true },
      { "res", "mrc.nack.res", at = 12, width = 1, kind = "uint" },
      { "nack_psn", "mrc.nack.psn", at = 13, width = 3, kind = "uint" },
      { "cc_type", "mrc.nack.cc_type", at = 16, width = 1, kind = "uint", mask = 0xf0 },
      { "cc_fl", "mrc.nack.cc_fl", at = 16, width = 1, kind = "uint", mask = 0xf },
      { "res17", "mrc.nack.res17", at = 17, width = 1, kind = "uint" },
      { "tx_timestamp", "mrc.nack.tx_timestamp", at = 18, width = 2, kind = "uint" },
    },
    PETH = { bytes = 16, name = "MRC PETH",
      { "res0", "mrc.probe.res0", at = 0, width = 2, kind = "uint", hex = true },
      { "res2", "mrc.probe.res2", at = 2, width = 1, kind = "uint" },
      { "vendor_info", "mrc.probe.vendor_info", at = 3, width = 1, kind = "uint" },
      { "probe_id", "mrc.probe.probe_id", at = 4, width = 2, kind = "uint", hex = true },
      { "res6", "mrc.probe.res6", at = 6, width = 2, kind = "uint", hex = true },
      { "spdcid", "mrc.probe.spdcid", at = 8, width = 2, kind = "uint", hex = true },
      { "dpdcid", "mrc.probe.dpdcid", at = 10, width = 2, kind = "uint", hex = true },
      { "tx_timestamp", "mrc.probe.tx_timestamp", at = 12, width = 2, kind = "uint" },
      { "tsr", "mrc.probe.tsr", at = 14, width = 2, kind = "bool", mask = 0x8000 },
      { "res14", "mrc.probe.res14", at = 14, width = 2, kind = "uint", mask = 0x7ff0 },
      { "ftype", "mrc.probe.ftype", at = 14, width = 2, kind = "uint", mask = 0xf },
    },
    ERTH = { bytes = 16, name = "MRC ERTH",
      { "res0", "mrc.request.res0", at = 0, width = 2, kind = "uint", mask = 0xfffc },
      { "op", "mrc.request.op", at = 0, width = 2, kind = "uint", mask = 0x3, values = { [0x0] = "PORT_STATUS_UPDATE", [0x1] = "EV_PROBE" } },
      { "res2", "mrc.request.res2", at = 2, width = 1, kind = "uint" },
      { "vendor_info", "mrc.request.vendor_info", at = 3, width = 1, kind = "uint" },
      { "port_status_mask", "mrc.request.port_status_mask", at = 4, width = 4, kind = "uint", hex = true },
      { "res8", "mrc.request.res8", at = 8, width = 4, kind = "uint", hex = true },
      { "tx_timestamp", "mrc.request.tx_timestamp", at = 12, width = 2, kind = "uint" },
      { "tsr", "mrc.request.tsr", at = 14, width = 2, kind = "bool", mask = 0x8000 },
      { "res14", "mrc.request.res14", at = 14, width = 2, kind = "uint", mask = 0x7ff0 },
      { "ftype", "mrc.request.ftype", at = 14, width = 2, kind = "uint", mask = 0xf },
    },
    EETH = { bytes = 36, name = "MRC EETH",
      { "res0", "mrc.response.res0", at = 0, width = 2, kind = "uint", mask = 0xfff0 },
      { "op", "mrc.response.op", at = 0, width = 2, kind = "uint", mask = 0xc, values = { [0x0] = "PORT_STATUS_UPDATE", [0x1] = "EV_PROBE" } },
      { "r0", "mrc.response.r0", at = 0, width = 2, kind = "uint", mask = 0x3 },
      { "res2", "mrc.response.res2", at = 2, width = 26, kind = "bytes" },
      { "tx_timestamp", "mrc.response.tx_timestamp", at = 28, width = 2, kind = "uint" },
      { "res30", "mrc.response.res30", at = 30, width = 6, kind = "bytes" },
    },
    Announce = { bytes = 44, name = "SprayCheck Announce",
      { "magic", "mrc.announce.magic", at = 0, width = 4, kind = "uint", hex = true },
      { "version", "mrc.announce.version", at = 4, width = 1, kind = "uint" },
      { "policy", "mrc.announce.policy", at = 5, width = 1, kind = "uint", values = { [0x0] = "ROTATION", [0x1] = "RANDOM" } },
      { "plane", "mrc.announce.plane", at = 6, width = 1, kind = "uint" },
      { "kind", "mrc.announce.kind", at = 7, width = 1, kind = "uint", values = { [0x0] = "OPEN", [0x1] = "CLOSE", [0x2] = "ELSEWHERE" } },
      { "epoch", "mrc.announce.epoch", at = 8, width = 2, kind = "uint" },
      { "spines", "mrc.announce.spines", at = 10, width = 2, kind = "uint" },
      { "src_leaf", "mrc.announce.src_leaf", at = 12, width = 2, kind = "uint" },
      { "dst_leaf", "mrc.announce.dst_leaf", at = 14, width = 2, kind = "uint" },
      { "src_host", "mrc.announce.src_host", at = 16, width = 2, kind = "uint" },
      { "dst_host", "mrc.announce.dst_host", at = 18, width = 2, kind = "uint" },
      { "dqpn", "mrc.announce.dqpn", at = 20, width = 4, kind = "uint", hex = true },
      { "start_psn", "mrc.announce.start_psn", at = 24, width = 4, kind = "uint" },
      { "packets", "mrc.announce.packets", at = 28, width = 4, kind = "uint" },
      { "last_psn", "mrc.announce.last_psn", at = 32, width = 4, kind = "uint" },
      { "end_psn", "mrc.announce.end_psn", at = 36, width = 4, kind = "uint" },
      { "measured", "mrc.announce.measured", at = 40, width = 1, kind = "uint" },
      { "res41", "mrc.announce.res41", at = 41, width = 3, kind = "bytes" },
      { "shares", "mrc.announce.shares", at = 44, width = 4, kind = "list" },
    },
  },
}
-- end of what agent/wire/lua_tables.py writes

-- A second copy of this file (the plug-in folder and -X lua_script, say) leaves the protocol to the first.
local first, mrc = pcall(Proto, "mrc", "Multipath Reliable Connection")
if not first then return end
local announcement = Proto("mrc.announce", "SprayCheck Flow Announcement")

-- Fields: those of the headers, from the table above ----------------------------------------------------------------

local BITS_OF_WIDTH = { [1] = 8, [2] = 16, [3] = 24, [4] = 32, [8] = 64 }

local fields = {} -- fields[header][name]: the ProtoField
local places = {} -- places[header][name]: where it is and how wide

local function proto_field(field)
  local name, filter = field[1], field[2]
  local bits = BITS_OF_WIDTH[field.width]
  if field.kind == "bytes" then
    return ProtoField.bytes(filter, name)
  elseif field.kind == "bool" then
    return ProtoField.bool(filter, name, 8 * field.width, nil, field.mask)
  end
  local kind = field.kind == "list" and "uint" or field.kind
  local shown = (field.hex or field.values) and base.HEX or base.DEC
  return ProtoField[kind .. bits](filter, name, shown, field.values, field.mask)
end

local mrc_fields, announcement_fields = {}, {}

for header, layout in pairs(wire.headers) do
  fields[header], places[header] = {}, {}
  local list = header:find("^Announce") and announcement_fields or mrc_fields
  for _, field in ipairs(layout) do
    fields[header][field[1]], places[header][field[1]] = proto_field(field), field
    table.insert(list, fields[header][field[1]])
    if field.mask then -- what to divide by, and how many values there are
      field.low = 1
      while field.mask % (2 * field.low) == 0 do field.low = 2 * field.low end
      field.count = math.floor(field.mask / field.low + 1)
    end
  end
end

-- Fields: what no header holds as such, computed from one or read from the headers below UDP --------------------------

local function said_field(kind, filter, name, ...)
  local field = ProtoField[kind]("mrc." .. filter, name, ...)
  table.insert(mrc_fields, field)
  return field
end

local function ev_fields(filter)
  return {
    plane = said_field("uint8", filter .. ".plane", "plane"),
    spine = said_field("uint8", filter .. ".spine", "spine"),
    leaf = said_field("uint8", filter .. ".leaf", "leaf (the path turns there)"),
    copy = said_field("uint16", filter .. ".copy", "copy"),
  }
end

local said = {
  ev = said_field("uint32", "ev", "Entropy value", base.HEX),
  block = said_field("uint32", "usid.block", "Block", base.HEX),
  usid = said_field("uint16", "usid", "uSID", base.HEX),
  t1 = said_field("uint8", "usid.t1", "T1 (spine)"),
  t0 = said_field("uint8", "usid.t0", "T0 (leaf)"),
  downlink = said_field("uint8", "usid.downlink", "Downlink (host slot)"),
  plane = said_field("uint8", "usid.plane", "Plane"),
  class = said_field("uint8", "class", "Traffic class", base.DEC, wire.dscp),
  ce = said_field("bool", "ce", "Congestion experienced"),
  trimmed = said_field("bool", "trimmed", "Trimmed"),
  trimmed_lasthop = said_field("bool", "trimmed_lasthop", "Trimmed at the last hop"),
  mark = said_field("bool", "spraycheck_mark", "SprayCheck mark", 8, nil, wire.spraycheck_mark),
  flags = said_field("uint8", "flags", "flags", base.HEX),
  payload = said_field("bytes", "payload", "Payload"),
  payload_bytes = said_field("uint32", "payload_bytes", "Payload bytes"),
  icrc = said_field("uint32", "icrc", "ICRC (not checked)", base.HEX),
  request_id = said_field("uint16", "request_id", "Request id", base.HEX),
  port = said_field("uint8", "port", "Port that works"),
  timestamp_us = said_field("uint32", "tx_timestamp_us", "Time stamp in microseconds"),
  trigger = said_field("uint32", "sack.trigger_psn", "PSN that triggered it"),
  probe_id = said_field("uint16", "sack.probe_id", "Answers the probe", base.HEX),
  base_psn = said_field("uint32", "sack.base_psn", "PSN of bit 0"),
  drawn = said_field("string", "sack.drawn", "Drawn"),
  received = said_field("uint32", "sack.received", "Received"),
  missing = said_field("uint32", "sack.missing", "Missing"),
  window = said_field("uint32", "sack.mpr_psns", "Window in PSNs"),
  rcvd = said_field("uint64", "cc.rcvd_total", "Received, in bytes"),
}
local ev_parts = { packet = ev_fields("ev"), sack = ev_fields("sack.ev"), nack = ev_fields("nack.ev") }

mrc.fields = mrc_fields
announcement.fields = announcement_fields

local function expert_of(name, text, group, severity)
  return ProtoExpert.new("mrc.expert." .. name, text, expert.group[group], expert.severity[severity])
end

local notes = {
  retransmission = expert_of("retransmission", "Retransmission", "SEQUENCE", "NOTE"),
  answers_retransmission = expert_of("answers_retransmission", "Answers a retransmission", "SEQUENCE", "CHAT"),
  trimmed = expert_of("trimmed", "Trimmed: a switch cut off what follows", "SEQUENCE", "WARN"),
  refused = expert_of("refused", "The receiver did not keep this packet", "RESPONSE_CODE", "NOTE"),
  reserved = expert_of("reserved", "A value that MRC does not use", "PROTOCOL", "WARN"),
  short = expert_of("short", "The packet ends inside a header", "MALFORMED", "ERROR"),
  rest = expert_of("rest", "Bytes behind the last header", "PROTOCOL", "WARN"),
}
mrc.experts = { notes.retransmission, notes.answers_retransmission, notes.trimmed, notes.refused, notes.reserved,
  notes.short, notes.rest }

-- Reading ------------------------------------------------------------------------------------------------------------

local flow_labels = Field.new("ipv6.flow")
local dscps = Field.new("ipv6.tclass.dscp")
local ecns = Field.new("ipv6.tclass.ecn")
local destinations = Field.new("ipv6.dst")

-- A number of at most 32 bits from a header that starts at `at`; plain arithmetic, since Lua 5.2 has no bit operators.
local function number(tvb, at, header, name)
  local place = places[header][name]
  local range = tvb(at + place.at, place.width)
  local value = place.kind == "int" and range:int() or range:uint()
  if not place.mask then return value end
  return math.floor(value / place.low) % place.count
end

-- Whether a header is there and captured; says so in the tree if not.
local function fits(tree, tvb, at, bytes, what)
  if at + bytes > tvb:reported_len() then
    tree:add_proto_expert_info(notes.short, "The packet ends inside " .. what)
    return false
  elseif at + bytes > tvb:len() then
    tree:add(mrc, tvb(tvb:len(), 0), what .. " was not captured")
    return false
  end
  return true
end

-- Numbers from `at` to the end of the packet; the first is that of spine 0.
local function add_list(subtree, field, tvb, at, width)
  local number_of = 0
  while at + width <= tvb:len() do
    subtree:add(field, tvb(at, width)):append_text(" (spine " .. number_of .. ")")
    at, number_of = at + width, number_of + 1
  end
end

-- The header's subtree and the offset behind it, or nil when it is not there.
local function add_header(tree, tvb, at, header)
  local layout = wire.headers[header]
  if not fits(tree, tvb, at, layout.bytes, layout.name) then return nil end
  local subtree = tree:add(mrc, tvb(at, layout.bytes), layout.name)
  for _, field in ipairs(layout) do
    if field.kind == "list" then
      add_list(subtree, fields[header][field[1]], tvb, at + field.at, field.width)
    else
      local item = subtree:add(fields[header][field[1]], tvb(at + field.at, field.width))
      if field.values and header ~= "BTH" and not field.values[number(tvb, at, header, field[1])] then
        item:add_proto_expert_info(notes.reserved)
      end
    end
  end
  return subtree, at + layout.bytes
end

local function add_said(tree, field, value, range)
  local item = range and tree:add(field, range, value) or tree:add(field, value)
  item:set_generated()
  return item
end

-- What the packet's path is --------------------------------------------------------------------------------------------

local function parts_of(usid)
  return math.floor(usid / 4096), math.floor(usid / 256) % 16, usid % 256
end

local function turn_text(label)
  local role, plane, index = parts_of(label)
  if role == wire.t1 then
    return "plane " .. plane .. " spine " .. index
  elseif role == wire.t0 then
    return "plane " .. plane .. " leaf " .. index
  end
  return "no path of ours"
end

-- An EV's plane, spine and copy below an item that shows it.
local function add_ev_parts(item, parts, sport, label)
  local role, plane, index = parts_of(label)
  item:append_text(" (" .. turn_text(label) .. ")")
  if role ~= wire.t1 and role ~= wire.t0 then return end
  add_said(item, parts.plane, plane)
  add_said(item, role == wire.t1 and parts.spine or parts.leaf, index)
  add_said(item, parts.copy, sport % wire.copies)
end

local function add_reflected_ev(subtree, parts, range)
  local item = subtree:add(mrc, range, "Path of the packet answered")
  add_ev_parts(item, parts, range(0, 2):uint(), range(2, 2):uint())
end

-- The uSIDs that are left in the outer destination, by role. The tunnel's header lies outside our bytes.
local function add_path(tree, destination)
  local range = destination.range
  if range(0, 4):uint() ~= wire.usid_block then return end
  local item = tree:add(mrc, range, "Path left in the outer destination:")
  item:add(said.block, range(0, 4))
  local fields_of_role = { [wire.t1] = said.t1, [wire.t0] = said.t0, [wire.downlink] = said.downlink }
  local names = { [wire.t1] = "spine", [wire.t0] = "leaf", [wire.downlink] = "downlink" }
  local hops = {}
  for position = 0, wire.usids - 1 do
    local usid = range(4 + 2 * position, 2)
    if usid:uint() == 0 then break end
    local role, plane, index = parts_of(usid:uint())
    local hop = item:add(said.usid, usid)
    if names[role] then
      add_said(hop, fields_of_role[role], index, usid)
      add_said(hop, said.plane, plane, usid)
    end
    hop:append_text(" (" .. (names[role] and names[role] .. " " .. index .. " of plane " .. plane or "unknown") .. ")")
    table.insert(hops, (names[role] or "?") .. " " .. index)
  end
  item:append_text(" " .. table.concat(hops, ", "))
end

-- Traffic class, congestion and EV: all from the headers below. Returns whether the packet is trimmed, and its EV's halves.
local function add_tunnel(tree, pinfo)
  local labels, classes, addresses = { flow_labels() }, { dscps() }, { destinations() }
  if #labels == 0 or #classes == 0 then return false end
  local class, label, sport = classes[1].value, labels[#labels].value % 65536, pinfo.src_port
  local congested = false
  for _, ecn in ipairs({ ecns() }) do congested = congested or ecn.value == wire.ce end
  local lasthop = class == wire.trimmed_lasthop
  if #addresses > 1 then add_path(tree, addresses[1]) end
  local item = add_said(tree, said.ev, sport * 65536 + label)
  add_ev_parts(item, ev_parts.packet, sport, label)
  add_said(tree, said.class, class)
  add_said(tree, said.ce, congested)
  add_said(tree, said.trimmed, wire.trimmed[class] == true)
  add_said(tree, said.trimmed_lasthop, lasthop)
  return wire.trimmed[class] == true, label
end

-- What follows the BTH ---------------------------------------------------------------------------------------------------

local function add_timestamp(subtree, tvb, at, header, tsr)
  if tsr then
    local ticks = number(tvb, at, header, "tx_timestamp")
    add_said(subtree, said.timestamp_us, math.floor(ticks * wire.tick_ns / 1000))
  end
end

local function psn_text(first, last)
  return first == last and tostring(first) or first .. "-" .. last
end

-- The bitmap as a row of marks, bit 0 first, and the PSNs it says have come and have not.
local function add_bitmap(subtree, range, base_psn, cack)
  local marks, highest = {}, -1
  for bit = 0, wire.bitmap_bits - 1 do
    local set = range:bitfield(wire.bitmap_bits - 1 - bit, 1) == 1
    marks[bit] = set
    if set then highest = bit end
  end
  local row = {}
  for bit = 0, wire.bitmap_bits - 1 do
    if bit > 0 and bit % 8 == 0 then table.insert(row, " ") end
    table.insert(row, marks[bit] and "#" or ".")
  end
  local item = add_said(subtree, said.drawn, table.concat(row), range)
  if highest < 0 then
    item:append_text(" (says nothing)")
    return 0, 0
  end
  item:append_text(" (# received, from PSN " .. base_psn .. " on)")
  local received, missing = 0, 0
  for bit = 0, highest do
    local psn = (base_psn + bit) % wire.psn_modulus
    local ahead = (psn - cack) % wire.psn_modulus
    if marks[bit] then
      received = received + 1
      add_said(item, said.received, psn, range)
    elseif ahead > 0 and ahead < wire.psn_modulus / 2 then
      missing = missing + 1
      add_said(item, said.missing, psn, range)
    end
  end
  return received, missing
end

local function add_ports(subtree, range)
  for port = 1, wire.port_mask_bits - 1 do
    if range:bitfield(wire.port_mask_bits - 1 - port, 1) == 1 then add_said(subtree, said.port, port, range) end
  end
end

local function add_sack(tree, tvb, at)
  local seth, behind = add_header(tree, tvb, at, "SETH")
  if not seth then return nil, "" end
  local cack = number(tvb, at, "SETH", "cack_psn")
  local offset = number(tvb, at, "SETH", "ack_psn_offset")
  local probe = number(tvb, at, "SETH", "pr") == 1
  if probe then
    add_said(seth, said.probe_id, offset % 65536)
  else
    add_said(seth, said.trigger, (cack + offset) % wire.psn_modulus)
  end
  add_reflected_ev(seth, ev_parts.sack, tvb(at + places.SETH.entropy.at, 4))
  local base_psn = (cack + number(tvb, at, "SETH", "sack_offset")) % wire.psn_modulus
  add_said(seth, said.base_psn, base_psn)
  add_said(seth, said.window, number(tvb, at, "SETH", "mpr") * wire.mpr_unit)
  local received, missing = add_bitmap(seth, tvb(at + places.SETH.sack_bitmap.at, 8), base_psn, cack)
  if number(tvb, at, "SETH", "cc_type") ~= 0 then seth:add_proto_expert_info(notes.reserved) end
  local info = " cack=" .. cack .. (probe and " answers a probe" or "")
  if received > 0 then info = info .. " received " .. received .. " above, missing " .. missing end
  local cc_state, cc_at = nil, behind
  cc_state, behind = add_header(tree, tvb, behind, "CC_STATE")
  if not cc_state then return nil, info end
  add_said(cc_state, said.rcvd, UInt64(number(tvb, cc_at, "CC_STATE", "rcvd_bytes") * wire.rcvd_unit))
  add_timestamp(cc_state, tvb, cc_at, "CC_STATE", true)
  if number(tvb, at, "SETH", "nxt") == wire.port_mask_nxt then
    local mask_at, mask = behind, nil
    mask, behind = add_header(tree, tvb, behind, "PortMask")
    if mask then add_ports(mask, tvb(mask_at, 4)) end
  end
  return behind, info
end

local function add_nack(tree, tvb, at)
  local neth, behind = add_header(tree, tvb, at, "NETH")
  if not neth then return nil, "" end
  add_reflected_ev(neth, ev_parts.nack, tvb(at + places.NETH.entropy.at, 4))
  add_timestamp(neth, tvb, at, "NETH", true)
  neth:add_proto_expert_info(notes.refused)
  local reason = number(tvb, at, "NETH", "nack_reason")
  return behind, " " .. (places.NETH.nack_reason.values[reason] or "reason " .. reason)
end

local function add_request(tree, tvb, at)
  local erth, behind = add_header(tree, tvb, at, "ERTH")
  if not erth then return nil, "" end
  add_ports(erth, tvb(at + places.ERTH.port_status_mask.at, 4))
  add_timestamp(erth, tvb, at, "ERTH", number(tvb, at, "ERTH", "tsr") == 1)
  local op = number(tvb, at, "ERTH", "op")
  return behind, " " .. (places.ERTH.op.values[op] or "op " .. op)
end

local function add_response(tree, tvb, at)
  local eeth, behind = add_header(tree, tvb, at, "EETH")
  if not eeth then return nil, "" end
  local op = number(tvb, at, "EETH", "op")
  return behind, " " .. (places.EETH.op.values[op] or "op " .. op)
end

local function add_probe(tree, tvb, at)
  local peth, behind = add_header(tree, tvb, at, "PETH")
  if not peth then return nil, "" end
  add_timestamp(peth, tvb, at, "PETH", number(tvb, at, "PETH", "tsr") == 1)
  return behind, " id=" .. number(tvb, at, "PETH", "probe_id")
end

local function add_ack(tree, tvb, at)
  local aeth, behind = add_header(tree, tvb, at, "AETH")
  if not aeth then return nil, "" end
  local syndrome = number(tvb, at, "AETH", "syndrome")
  return behind, " " .. (places.AETH.syndrome.values[syndrome] or "syndrome " .. syndrome)
end

local ADD_CONTROL = { SETH = add_sack, NETH = add_nack, ERTH = add_request, EETH = add_response, PETH = add_probe,
  AETH = add_ack }

-- METH to the end of the payload. A trimmed packet may end behind the TSETH.
local function add_write(tree, tvb, at, opcode, timestamped, trimmed, pad)
  local headers = { "METH" }
  if timestamped then table.insert(headers, "TSETH") end
  table.insert(headers, "RETH")
  if wire.immediates[opcode] then table.insert(headers, "ImmDt") end
  for _, header in ipairs(headers) do
    if trimmed and at + wire.headers[header].bytes > tvb:len() then return end
    local subtree, behind = add_header(tree, tvb, at, header)
    if not subtree then return end
    if header == "TSETH" then add_timestamp(subtree, tvb, at, header, number(tvb, at, header, "tsr") == 1) end
    at = behind
  end
  if trimmed then return end
  local bytes = tvb:reported_len() - wire.icrc_bytes - pad - at
  if bytes < 0 then
    tree:add_proto_expert_info(notes.short, "The packet ends before pad and ICRC")
    return
  end
  add_said(tree, said.payload_bytes, bytes)
  local captured = math.min(bytes, tvb:len() - at)
  if captured > 0 then tree:add(said.payload, tvb(at, captured)) end
end

local function add_icrc(tree, tvb)
  local at = tvb:reported_len() - wire.icrc_bytes
  if at >= wire.headers.BTH.bytes and tvb:reported_len() <= tvb:len() then
    tree:add_le(said.icrc, tvb(at, wire.icrc_bytes))
  end
end

-- The BTH, with the bits in it that have a meaning of their own.
local function add_bth(tree, tvb, opcode)
  local bth = add_header(tree, tvb, 0, "BTH")
  local flags_at = places.BTH.a.at
  bth:add(said.mark, tvb(places.BTH.var_res.at, 1))
  add_said(bth, said.flags, tvb(flags_at, 1):uint(), tvb(flags_at, 1))
  if number(tvb, 0, "BTH", "tver") ~= 0 or number(tvb, 0, "BTH", "pkey") ~= wire.pkey then
    bth:add_proto_expert_info(notes.reserved, "Another transport version or partition than ours")
  end
  if number(tvb, 0, "BTH", "rtx") == 1 then
    bth:add_proto_expert_info(wire.writes[opcode] and notes.retransmission or notes.answers_retransmission)
  end
  return bth
end

local function add_control(tree, tvb, opcode)
  local header = wire.behind_bth[opcode]
  local behind, info = ADD_CONTROL[header](tree, tvb, wire.headers.BTH.bytes)
  if header == "ERTH" or header == "EETH" then
    add_said(tree, said.request_id, number(tvb, 0, "BTH", "psn") % 65536)
  end
  if behind and behind + wire.icrc_bytes < tvb:reported_len() then
    tree:add_proto_expert_info(notes.rest)
  elseif behind and behind + wire.icrc_bytes > tvb:reported_len() then
    tree:add_proto_expert_info(notes.short, "The packet ends before its ICRC")
  end
  return info
end

-- The dissectors -----------------------------------------------------------------------------------------------------------

local udp_ports = DissectorTable.get("udp.port")
local roce = udp_ports:get_dissector(wire.ports[1])

local function is_mrc(tvb)
  return math.floor(tvb(0, 1):uint() / 32) == wire.opcode_group
end

local WRITE_BYTES = wire.icrc_bytes
for _, header in ipairs({ "BTH", "METH", "TSETH", "RETH", "ImmDt" }) do
  WRITE_BYTES = WRITE_BYTES + wire.headers[header].bytes
end

local function summary(name, psn, qp)
  return string.format("%s psn=%d qp=0x%x", name, psn, qp)
end

-- The line of the packet list for a first transmission that has nothing to mark, or nil for any other packet. Reading a
-- capture without a filter on MRC needs no tree of its packets, and trees take most of the time.
local function plain_write(tvb)
  if tvb:len() < WRITE_BYTES then return nil end
  local opcode, flags, pkey_high, pkey_low, _, qp1, qp2, qp3, bits, psn1, psn2, psn3 =
    tvb:raw(0, wire.headers.BTH.bytes):byte(1, -1)
  local version, partition = flags % (places.BTH.tver.mask + 1), 256 * pkey_high + pkey_low
  local again = math.floor(bits / places.BTH.rtx.low) % 2 == 1
  if not wire.writes[opcode] or again or version ~= 0 or partition ~= wire.pkey then return nil end
  local classes, labels = { dscps() }, { flow_labels() }
  if #labels == 0 or #classes == 0 or wire.trimmed[classes[1].value] then return nil end
  local psn, qp = 65536 * psn1 + 256 * psn2 + psn3, 65536 * qp1 + 256 * qp2 + qp3
  return summary(places.BTH.opcode.values[opcode], psn, qp) .. " " .. turn_text(labels[#labels].value % 65536)
end

function mrc.dissector(tvb, pinfo, root)
  if tvb:len() == 0 then return 0 end
  if not is_mrc(tvb) then
    if roce then return roce:call(tvb, pinfo, root) end
    return 0
  end
  pinfo.cols.protocol = "MRC"
  local brief = not (root.visible or root:referenced(mrc.dissector)) and plain_write(tvb)
  if brief then
    pinfo.cols.info = brief
    return tvb:len()
  end
  local tree = root:add(mrc, tvb())
  if not fits(tree, tvb, 0, wire.headers.BTH.bytes, "MRC BTH") then return tvb:len() end
  local opcode = tvb(0, 1):uint()
  local name = places.BTH.opcode.values[opcode]
  local trimmed, label = add_tunnel(tree, pinfo)
  local bth = add_bth(tree, tvb, opcode)
  local info = summary(name or string.format("opcode 0x%02x", opcode), number(tvb, 0, "BTH", "psn"), number(tvb, 0, "BTH", "dqp"))
  if trimmed then tree:add_proto_expert_info(notes.trimmed) end
  if wire.writes[opcode] then
    local timestamped = number(tvb, 0, "BTH", "ts") == 1
    add_write(tree, tvb, wire.headers.BTH.bytes, opcode, timestamped, trimmed, number(tvb, 0, "BTH", "pad"))
  elseif name then
    info = info .. add_control(tree, tvb, opcode)
  else
    bth:add_proto_expert_info(notes.reserved, "An opcode that MRC does not use")
  end
  if not trimmed then add_icrc(tree, tvb) end
  if label then info = info .. " " .. turn_text(label) end
  if number(tvb, 0, "BTH", "rtx") == 1 then info = info .. " [rtx]" end
  if trimmed then info = info .. " [trimmed]" end
  tree:append_text(": " .. info)
  pinfo.cols.info = info
  return tvb:len()
end

function announcement.dissector(tvb, pinfo, root)
  if tvb:len() < 4 or tvb(0, 4):uint() ~= wire.announce_magic then return 0 end
  pinfo.cols.protocol = "MRC announce"
  local tree = root:add(announcement, tvb())
  add_tunnel(tree, pinfo)
  local subtree = add_header(tree, tvb, 0, "Announce")
  if not subtree then return tvb:len() end
  local function value(name) return number(tvb, 0, "Announce", name) end
  local titles = { [wire.announce_close] = "End of flow", [wire.announce_elsewhere] = "End elsewhere of flow" }
  pinfo.cols.info = string.format("%s of host %d to host %d: %d packets from PSN %d on over plane %d, epoch %d",
    titles[value("kind")] or "Flow", value("src_host"), value("dst_host"), value("packets"), value("start_psn"),
    value("plane"), value("epoch"))
  return tvb:len()
end

for _, port in ipairs(wire.ports) do udp_ports:add(port, mrc) end
udp_ports:add(wire.announce_port, announcement)

#include "trace/preload/instructions.h"

// Only lengths matter, so opcodes are sorted by what follows them: a ModRM byte (with what that
// asks for) or none, and a constant of 0, 1, 2, 4 or 8 bytes. The tables below follow the opcode
// maps of Intel's manual (volume 2, appendix A).

namespace penstock::trace::preload {
namespace {

// What follows an opcode.
enum Form : uint8_t {
  none,     // of this length
  plain,    // nothing
  modrm,    // ModRM
  modrm_1,  // ModRM and one byte
  modrm_z,  // ModRM and four bytes (two with an operand-size prefix)
  byte_1,   // a constant
  byte_2,
  byte_3,
  word_z,    // four (two)
  word_v,    // four, or eight with REX.W (two)
  offset_8,  // an address of eight bytes
  jump_1,    // a distance
  jump_4,
  group_3,  // f6, f7: a constant behind ModRM for two of eight operations
};

Form form_of_one(uint8_t opcode) {
  const uint32_t low = opcode & 7;
  if (opcode < 0x40) {  // arithmetic, in eight rows of eight
    if (low < 4) return modrm;
    if (low == 4) return byte_1;
    return low == 5 ? word_z : none;
  }
  switch (opcode) {
    case 0x63:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xfe:
    case 0xff:
      return modrm;
    case 0x68:
    case 0xa9:
      return word_z;
    case 0x69:
    case 0x81:
    case 0xc7:
      return modrm_z;
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
      return modrm_1;
    case 0x6a:
    case 0xa8:
    case 0xcd:
    case 0xe4:
    case 0xe5:
    case 0xe6:
    case 0xe7:
      return byte_1;
    case 0xc2:
    case 0xca:
      return byte_2;
    case 0xc8:
      return byte_3;
    case 0xe8:
    case 0xe9:
      return jump_4;
    case 0xeb:
      return jump_1;
    case 0xf6:
    case 0xf7:
      return group_3;
    case 0x60:
    case 0x61:
    case 0x82:
    case 0x9a:
    case 0xce:
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xea:
      return none;
    default:
      break;
  }
  if (opcode >= 0x70 && opcode < 0x80) return jump_1;
  if (opcode >= 0x84 && opcode < 0x90) return modrm;
  if (opcode >= 0xa0 && opcode < 0xa4) return offset_8;
  if (opcode >= 0xb0 && opcode < 0xb8) return byte_1;
  if (opcode >= 0xb8 && opcode < 0xc0) return word_v;
  if (opcode >= 0xd8 && opcode < 0xe0) return modrm;
  if (opcode >= 0xe0 && opcode < 0xe4) return jump_1;
  return plain;
}

// Behind 0f.
Form form_of_two(uint8_t opcode) {
  switch (opcode) {
    case 0x04:
    case 0x0a:
    case 0x0c:
    case 0x24:
    case 0x25:
    case 0x26:
    case 0x27:
    case 0x36:
    case 0x39:
    case 0x3b:
    case 0x3c:
    case 0x3d:
    case 0x3e:
    case 0x3f:
    case 0x7a:
    case 0x7b:
    case 0xa6:
    case 0xa7:
      return none;
    case 0x05:
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0b:
    case 0x0e:
    case 0x30:
    case 0x31:
    case 0x32:
    case 0x33:
    case 0x34:
    case 0x35:
    case 0x37:
    case 0x77:
    case 0xa0:
    case 0xa1:
    case 0xa2:
    case 0xa8:
    case 0xa9:
    case 0xaa:
      return plain;
    case 0x0f:
    case 0x70:
    case 0x71:
    case 0x72:
    case 0x73:
    case 0xa4:
    case 0xac:
    case 0xba:
    case 0xc2:
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return modrm_1;
    default:
      break;
  }
  if (opcode >= 0x80 && opcode < 0x90) return jump_4;
  if (opcode >= 0xc8 && opcode < 0xd0) return plain;
  return modrm;
}

// Instructions that begin with VEX or EVEX, by their map.
Form form_of_vector(uint32_t map, uint8_t opcode) {
  if (map == 1) return opcode == 0x77 ? plain : form_of_two(opcode) == modrm_1 ? modrm_1 : modrm;
  if (map == 3) return modrm_1;
  return map == 2 || map == 5 || map == 6 ? modrm : none;
}

class Reader {
 public:
  Reader(const uint8_t* code, size_t bytes) : code_(code), bytes_(bytes) {}
  uint8_t next() { return at_ < bytes_ ? code_[at_++] : over(); }
  uint8_t peek() const { return at_ < bytes_ ? code_[at_] : 0; }
  void skip(size_t count) {
    at_ += count;
    if (at_ > bytes_) is_over_ = true;
  }
  bool is_over() const { return is_over_; }
  size_t at() const { return at_; }

 private:
  uint8_t over() {
    is_over_ = true;
    return 0;
  }
  const uint8_t* code_;
  size_t bytes_;
  size_t at_ = 0;
  bool is_over_ = false;
};

}  // namespace

Instruction decode(const uint8_t* code, size_t bytes) {
  constexpr size_t longest = 15;
  Reader reader(code, bytes < longest ? bytes : longest);
  bool is_short = false, is_wide = false, has_short_address = false;
  uint8_t byte = reader.next();
  for (bool more = true; more;) {
    switch (byte) {
      case 0x66:
        is_short = true;
        byte = reader.next();
        break;
      case 0x67:
        has_short_address = true;
        byte = reader.next();
        break;
      case 0x26:
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x64:
      case 0x65:
      case 0xf0:
      case 0xf2:
      case 0xf3:
        byte = reader.next();
        break;
      default:
        more = false;
    }
    if (reader.is_over()) return {};
  }
  if ((byte & 0xf0) == 0x40) {  // REX
    is_wide = (byte & 8) != 0;
    byte = reader.next();
  }
  Form form = none;
  bool is_movable = true;
  bool is_group_5 = false;
  if (byte == 0x0f) {
    byte = reader.next();
    if (byte == 0x38) {
      reader.skip(1);
      form = modrm;
    } else if (byte == 0x3a) {
      reader.skip(1);
      form = modrm_1;
    } else {
      form = form_of_two(byte);
      // System calls, undefined ones and the like stay where they are.
      if (byte == 0x05 || byte == 0x07 || byte == 0x0b || byte == 0x34 || byte == 0x35) {
        is_movable = false;
      }
    }
  } else if (byte == 0xc5) {
    reader.skip(1);
    form = form_of_vector(1, reader.next());
  } else if (byte == 0xc4) {
    const uint32_t map = reader.next() & 31u;
    reader.skip(1);
    form = form_of_vector(map, reader.next());
  } else if (byte == 0x62) {
    const uint32_t map = reader.next() & 7u;
    reader.skip(2);
    form = form_of_vector(map, reader.next());
  } else {
    form = form_of_one(byte);
    is_group_5 = byte == 0xff;
    if (byte == 0xc2 || byte == 0xc3 || byte == 0xca || byte == 0xcb || byte == 0xcc ||
        byte == 0xcd || byte == 0xcf) {
      is_movable = false;
    }
  }
  if (form == none) return {};

  uint32_t constant = 0;
  const uint32_t of_size = is_short ? 2 : 4;
  if (form == modrm || form == modrm_1 || form == modrm_z || form == group_3) {
    const uint8_t mod_rm = reader.next();
    const uint32_t mod = mod_rm >> 6, reg = mod_rm >> 3 & 7, rm = mod_rm & 7;
    if (mod != 3) {
      uint32_t base = rm;
      if (rm == 4) base = reader.next() & 7u;       // SIB
      if (mod == 0 && rm == 5) is_movable = false;  // by the instruction's own place
      if (mod == 1) reader.skip(1);
      if (mod == 2 || (mod == 0 && base == 5)) reader.skip(4);
    }
    if (is_group_5 && reg >= 2 && reg <= 5) is_movable = false;  // calls and jumps
    if (form == modrm_1) constant = 1;
    if (form == modrm_z) constant = of_size;
    if (form == group_3 && reg < 2) constant = byte == 0xf6 ? 1 : of_size;
  } else {
    switch (form) {
      case byte_1:
      case jump_1:
        constant = 1;
        break;
      case byte_2:
        constant = 2;
        break;
      case byte_3:
        constant = 3;
        break;
      case word_z:
        constant = of_size;
        break;
      case word_v:
        constant = is_wide ? 8 : of_size;
        break;
      case offset_8:
        constant = has_short_address ? 4 : 8;
        break;
      case jump_4:
        constant = 4;
        break;
      default:
        break;
    }
  }
  const size_t constant_at = reader.at();
  reader.skip(constant);
  if (reader.is_over()) return {};
  Instruction found{.bytes = static_cast<uint32_t>(reader.at()), .is_movable = is_movable};
  if (form == jump_1 || form == jump_4) {
    found.is_movable = false;
    found.has_target = true;
    if (form == jump_1) {
      found.target = static_cast<int8_t>(code[constant_at]);
    } else {
      int32_t distance;
      __builtin_memcpy(&distance, code + constant_at, sizeof distance);
      found.target = distance;
    }
  }
  return found;
}

}  // namespace penstock::trace::preload

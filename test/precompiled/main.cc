// Nothing: the headers that all tests include are compiled once, with this program
// (tools/layer.cmake).
int main() {
  return 0;
}

// An empty program, with which the headers that all tests include are compiled once
// (tools/layer.cmake).
int main() {
  return 0;
}

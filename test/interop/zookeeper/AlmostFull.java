// Writes the data of a server below one of whose nodes almost 2^31 children have been created. Arguments: data folder, the
// node's parent, the node, the number its next child gets.
import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileSnap;

public class AlmostFull {
    public static void main(String[] args) throws Exception {
        File folder = new File(args[0], "version-2");
        folder.mkdirs();
        DataTree tree = new DataTree();
        long now = System.currentTimeMillis();
        tree.createNode(args[1], new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 0, 1, 1, now);
        tree.createNode(args[2], new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 0, 1, 2, now);
        tree.setCversionPzxid(args[2], Integer.parseInt(args[3]), 3);
        tree.lastProcessedZxid = 3;
        new FileSnap(folder).serialize(tree, new ConcurrentHashMap<>(), new File(folder, "snapshot.3"), true);
        System.exit(0);
    }
}
